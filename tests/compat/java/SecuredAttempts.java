import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes a record by each properties file of a folder, and prints of each whether it was written, or all causes why not.
 *
 * Argument: the folder. A file says with timeout.ms how long its attempt may take.
 */
public final class SecuredAttempts {
    private static final int AT_ONCE = 8;

    public static void main(String[] arguments) throws Exception {
        List<Path> files;
        try (var listed = Files.list(Path.of(arguments[0]))) {
            files = listed.filter(each -> each.toString().endsWith(".properties")).sorted().toList();
        }
        ExecutorService attempts = Executors.newFixedThreadPool(AT_ONCE);
        for (Path file : files) {
            attempts.submit(() -> tell(file));
        }
        attempts.shutdown();
        attempts.awaitTermination(10, TimeUnit.MINUTES);
    }

    private static void tell(Path file) {
        String name = file.getFileName().toString().replace(".properties", "");
        String outcome = "written";
        try {
            write(read(file));
        } catch (Throwable error) {
            StringBuilder causes = new StringBuilder();
            for (Throwable each = error; each != null; each = each.getCause()) {
                causes.append(each.toString().replaceAll("\\s+", " ")).append(" ");
            }
            outcome = causes.toString();
        }
        synchronized (System.out) {
            System.out.println(name + "\t" + outcome);
        }
    }

    private static Properties read(Path file) throws IOException {
        Properties settings = new Properties();
        try (Reader reader = Files.newBufferedReader(file, StandardCharsets.US_ASCII)) {
            settings.load(reader);
        }
        return settings;
    }

    private static void write(Properties settings) throws Exception {
        String topic = (String) settings.remove("topic");
        String timeoutMs = (String) settings.remove("timeout.ms");
        settings.put("max.block.ms", timeoutMs);
        settings.put("request.timeout.ms", timeoutMs);
        settings.put("delivery.timeout.ms", timeoutMs);
        settings.put("linger.ms", "0");
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            producer.send(new ProducerRecord<>(topic, 0, null, new byte[] {1})).get();
        }
    }
}
