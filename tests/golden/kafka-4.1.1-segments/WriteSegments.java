import java.io.File;
import java.io.FileInputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.RollParams;

/**
 * Wrote the folders beside this file, with the classes of Kafka 4.1.1: java WriteSegments FOLDER...
 *
 * Each folder has a config.properties (topic settings) and a file of batches, one behind the other;
 * Kafka's LogSegment decides where to roll, and writes the segments.
 */
public class WriteSegments {
    public static void main(String[] folders) throws Exception {
        for (String folder : folders) {
            Properties properties = new Properties();
            try (FileInputStream in = new FileInputStream(folder + "/config.properties")) {
                properties.load(in);
            }
            write(new File(folder), new LogConfig(properties));
        }
    }

    static void write(File folder, LogConfig config) throws Exception {
        ByteBuffer batches = ByteBuffer.wrap(Files.readAllBytes(Path.of(folder.getPath(), "batches")));
        LogSegment segment = open(folder, batches.getLong(0), config);
        while (batches.hasRemaining()) {
            int size = batches.getInt(batches.position() + 8) + 12;
            MemoryRecords records = MemoryRecords.readableRecords(batches.slice(batches.position(), size));
            batches.position(batches.position() + size);
            RecordBatch batch = records.batches().iterator().next();
            RollParams roll = new RollParams(config.maxSegmentMs(), config.segmentSize(),
                batch.maxTimestamp(), batch.lastOffset(), size, System.currentTimeMillis());
            if (segment.shouldRoll(roll)) {
                segment.onBecomeInactiveSegment();
                segment.close();
                segment = open(folder, batch.baseOffset(), config);
            }
            segment.append(batch.lastOffset(), records);
        }
        segment.close();
    }

    static LogSegment open(File folder, long baseOffset, LogConfig config) throws Exception {
        return LogSegment.open(
            folder, baseOffset, config, Time.SYSTEM, config.initFileSize(), config.preallocate);
    }
}
