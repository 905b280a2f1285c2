// Asks Kafka 4.1.1 which segments of partition folders its retention deletes. Run as a source file:
//
//   java -cp <Kafka's jars> KafkaRetention.java <cases.json> <answers.json>
//
// What the files hold is said in test_kafka_retention.py, which writes and reads them.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.util.Optional;
import java.util.Properties;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public final class KafkaRetention {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode asked : JSON.readTree(new File(arguments[0]))) {
            ObjectNode answer = answers.addObject();
            try {
                retain(asked, scheduler, answer);
            } catch (Exception | AssertionError failure) {
                answer.put("error", failure.toString());
            }
        }
        scheduler.shutdown();
        JSON.writeValue(new File(arguments[1]), answers);
    }

    private static void retain(JsonNode asked, KafkaScheduler scheduler, ObjectNode answer)
            throws Exception {
        Properties settings = new Properties();
        asked.get("config").properties().forEach(
            setting -> settings.setProperty(setting.getKey(), setting.getValue().asText()));
        UnifiedLog log = UnifiedLog.create(
            new File(asked.get("folder").asText()),
            new LogConfig(settings),
            asked.get("log_start_offset").asLong(),
            0,
            scheduler,
            new BrokerTopicStats(),
            new StandingClock(asked.get("now_ms").asLong()),
            900_000,
            new ProducerStateManagerConfig(86_400_000, false),
            Integer.MAX_VALUE,
            new LogDirFailureChannel(10),
            false,
            Optional.empty());
        log.updateHighWatermark(asked.get("high_watermark").asLong());
        ArrayNode before = answer.putArray("before");
        log.logSegments().forEach(segment -> before.add(segment.baseOffset()));
        answer.put("deleted", log.deleteOldSegments());
        answer.put("log_start_offset", log.logStartOffset());
        ArrayNode after = answer.putArray("after");
        log.logSegments().forEach(segment -> after.add(segment.baseOffset()));
        log.close();
    }

    /** Shows one time. */
    private static final class StandingClock implements Time {
        private final long nowMs;

        StandingClock(long nowMs) {
            this.nowMs = nowMs;
        }

        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException("nothing here waits");
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException("nothing here waits");
        }
    }
}
