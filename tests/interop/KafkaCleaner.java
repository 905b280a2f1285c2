// Drives the log cleaner of Kafka 4.1.1, and the code with which a broker opens a log, over
// partition folders. Run as a source file:
//
//   java -cp <Kafka's jars> KafkaCleaner.java clean <cases.json> <reports.json>
//   java -cp <Kafka's jars> KafkaCleaner.java accept <folders.json> <verdicts.json>
//
// What the files hold is said in kafka_cleaner.py, which writes and reads them.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.kafka.common.record.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.OffsetMap;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public final class KafkaCleaner {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int MAP_SLOT_BYTES = 24;
    private static final int TRANSACTION_MS_MAX = 900_000;

    private final SetClock clock = new SetClock();
    private final KafkaScheduler scheduler = new KafkaScheduler(1);
    private final BrokerTopicStats statistics = new BrokerTopicStats();
    private final LogDirFailureChannel failures = new LogDirFailureChannel(10);

    public static void main(String[] arguments) throws Exception {
        KafkaCleaner kafka = new KafkaCleaner();
        kafka.scheduler.startup();
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode asked : JSON.readTree(new File(arguments[1]))) {
            ObjectNode answer = answers.addObject();
            try {
                if (arguments[0].equals("clean")) {
                    kafka.clean(asked, answer);
                } else {
                    kafka.accept(asked, answer);
                }
            } catch (Exception | AssertionError failure) {
                answer.put("error", failure.toString());
            }
        }
        kafka.scheduler.shutdown();
        JSON.writeValue(new File(arguments[2]), answers);
    }

    /** Cleans one folder, round after round; where asked, keeps its files before and after each. */
    private void clean(JsonNode asked, ObjectNode answer) throws Exception {
        File folder = new File(asked.get("folder").asText());
        Optional<Path> kept = Optional.ofNullable(asked.get("kept")).map(path -> Path.of(path.asText()));
        ArrayNode rounds = answer.putArray("rounds");
        clock.nowMs = asked.get("rounds").get(0).get("now_ms").asLong();
        UnifiedLog log = opened(folder, asked, false);
        try {
            if (kept.isPresent()) {
                copySegments(folder, kept.get().resolve("0"));
            }
            Optional<Long> firstDirty = Optional.empty();
            int done = 0;
            for (JsonNode round : asked.get("rounds")) {
                clock.nowMs = round.get("now_ms").asLong();
                if (round.path("reopened").asBoolean()) {
                    log.close();
                    log = opened(folder, asked, false);
                }
                ObjectNode report = rounds.addObject();
                firstDirty = Optional.of(cleanOnce(log, asked, round, firstDirty, report));
                done++;
                if (kept.isPresent()) {
                    copySegments(folder, kept.get().resolve(Integer.toString(done)));
                }
            }
        } finally {
            log.close();
        }
    }

    /** One round from the last one's end; returns where the next begins. */
    private long cleanOnce(
            UnifiedLog log,
            JsonNode asked,
            JsonNode round,
            Optional<Long> checkpoint,
            ObjectNode report) throws Exception {
        log.removeExpiredProducers(clock.nowMs);
        var offsets = LogCleanerManager.cleanableOffsets(log, checkpoint, clock.nowMs);
        long end = Math.max(
            offsets.firstDirtyOffset(),
            Math.min(offsets.firstUncleanableDirtyOffset(), round.path("end").asLong(Long.MAX_VALUE)));
        LogToClean toClean = new LogToClean(log, offsets.firstDirtyOffset(), end, false);
        report.put("first_dirty", toClean.firstDirtyOffset());
        report.put("first_uncleanable", toClean.firstUncleanableOffset());
        report.put("clean_bytes", toClean.cleanBytes());
        report.put("cleanable_bytes", toClean.cleanableBytes());
        if (toClean.cleanableBytes() == 0) { // The manager passes over such a log.
            report.put("next_first_dirty", toClean.firstDirtyOffset());
            return toClean.firstDirtyOffset();
        }
        boolean isTimed = asked.path("is_timed").asBoolean();
        Time time = isTimed ? Time.SYSTEM : clock;
        OffsetMap map = new SkimpyOffsetMap(asked.get("map_slots").asInt() * MAP_SLOT_BYTES);
        Cleaner cleaner = new Cleaner(
            0,
            map,
            asked.get("io_buffer_bytes").asInt(),
            log.config().maxMessageSize(),
            asked.get("map_load_factor").asDouble(),
            new Throttler(Double.MAX_VALUE, 300, "cleaner", "bytes", time),
            time,
            partition -> { });
        long startedNs = System.nanoTime();
        Map.Entry<Long, CleanerStats> cleaned = cleaner.clean(toClean);
        long endedNs = System.nanoTime();
        CleanerStats figures = cleaned.getValue();
        if (isTimed) {
            ObjectNode times = report.putObject("times_s");
            times.put("whole", (endedNs - startedNs) / 1e9);
            times.put("reported", figures.elapsedSecs());
            times.put("reported_index", figures.elapsedIndexSecs());
        }
        report.put("next_first_dirty", cleaned.getKey());
        report.put("map_records_read", figures.mapMessagesRead());
        report.put("map_keys", map.size());
        report.put("records_read", figures.messagesRead());
        report.put("records_written", figures.messagesWritten());
        report.put("records_invalid", figures.invalidMessagesRead());
        report.put("bytes_read", figures.bytesRead());
        report.put("bytes_written", figures.bytesWritten());
        putAborted(log, report);
        return cleaned.getKey();
    }

    /** Opens a closed folder as a broker does, and looks into every index for every batch. */
    private void accept(JsonNode asked, ObjectNode answer) throws Exception {
        File folder = new File(asked.get("folder").asText());
        clock.nowMs = asked.get("now_ms").asLong();
        ArrayNode complaints = answer.putArray("complaints");
        LogConfig config = config(asked.get("config"));
        for (Path path : filesOf(folder, ".log")) {
            long baseOffset = UnifiedLog.offsetFromFile(path.toFile());
            LogSegment segment = LogSegment.open(folder, baseOffset, config, clock, true, 0, false, "");
            segment.sanityCheck(false);
            lookUpEveryBatch(segment, complaints);
            segment.close();
        }
        UnifiedLog log = opened(folder, asked, true);
        answer.put("log_end_offset", log.logEndOffset());
        putAborted(log, answer);
        ArrayNode producers = answer.putArray("producers");
        log.lastRecordsOfActiveProducers().forEach((id, last) -> producers.addObject()
            .put("id", id)
            .put("epoch", last.producerEpoch)
            .put("last_data_offset", last.lastDataOffset.orElse(-1)));
        log.close();
    }

    private static void lookUpEveryBatch(LogSegment segment, ArrayNode complaints) throws IOException {
        FileRecords records = segment.log();
        for (FileChannelRecordBatch batch : records.batches()) {
            batch.ensureValid();
            batch.forEach(record -> { });
            FileRecords.LogOffsetPosition found = segment.translateOffset(batch.lastOffset());
            if (found == null || found.position != batch.position()) {
                complaints.add(records.file() + ": offset " + batch.lastOffset() + " is found at "
                    + found + ", not at " + batch.position());
            }
        }
        long largestMs = -1;
        for (FileChannelRecordBatch batch : records.batches()) {
            largestMs = Math.max(largestMs, batch.maxTimestamp());
        }
        if (segment.maxTimestampSoFar() != largestMs) {
            complaints.add(records.file() + ": the largest timestamp is " + largestMs + ", not "
                + segment.maxTimestampSoFar());
        }
    }

    private UnifiedLog opened(File folder, JsonNode asked, boolean closedClean) throws IOException {
        long offset = asked.get("log_start_offset").asLong();
        UnifiedLog log = UnifiedLog.create(
            folder,
            config(asked.get("config")),
            offset,
            closedClean ? Long.MAX_VALUE : 0,
            scheduler,
            statistics,
            clock,
            TRANSACTION_MS_MAX,
            new ProducerStateManagerConfig(asked.get("producer_expiration_ms").asInt(), false),
            Integer.MAX_VALUE,
            failures,
            closedClean,
            Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        return log;
    }

    private static LogConfig config(JsonNode settings) {
        Properties properties = new Properties();
        settings.properties().forEach(
            setting -> properties.setProperty(setting.getKey(), setting.getValue().asText()));
        return new LogConfig(properties);
    }

    private static void putAborted(UnifiedLog log, ObjectNode report) {
        ArrayNode aborted = report.putArray("aborted");
        List<AbortedTxn> found =
            log.collectAbortedTransactions(log.logStartOffset(), log.logEndOffset());
        for (AbortedTxn transaction : found) {
            aborted.addObject()
                .put("producer_id", transaction.producerId())
                .put("first_offset", transaction.firstOffset())
                .put("last_offset", transaction.lastOffset());
        }
    }

    private static List<Path> filesOf(File folder, String suffix) throws IOException {
        try (Stream<Path> paths = Files.list(folder.toPath())) {
            return paths.filter(path -> path.toString().endsWith(suffix)).sorted().toList();
        }
    }

    private static void copySegments(File folder, Path to) throws IOException {
        Files.createDirectories(to);
        for (String suffix : List.of(".log", ".txnindex")) {
            for (Path file : filesOf(folder, suffix)) {
                Path copy = to.resolve(file.getFileName());
                Files.copy(file, copy, StandardCopyOption.COPY_ATTRIBUTES);
            }
        }
    }

    /** Shows the time it was set to. */
    private static final class SetClock implements Time {
        private long nowMs;

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
