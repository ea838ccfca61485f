import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Does what it is told, line by line, with a transactional producer, and answers each line by `ok` or `failed` and why:
 * `begin`, `send TOPIC PARTITION VALUE`, `offset GROUP TOPIC OFFSET`, `commit`, `abort`, `read TOPIC`. The last one is
 * answered by the values that are committed in the topic's first partition.
 *
 * Arguments: bootstrap servers, transactional id, transaction timeout in ms.
 */
public final class TransactionalSteps {
    private static final Duration DEADLINE = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        KafkaProducer<String, String> producer = new KafkaProducer<>(producerSettings(arguments));
        answer(() -> {
            producer.initTransactions();
            return "";
        });
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            answer(() -> step(producer, arguments[0], words));
        }
        producer.close(Duration.ZERO);
    }

    private static String step(KafkaProducer<String, String> producer, String bootstrap, String[] words)
            throws Exception {
        switch (words[0]) {
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(words[1], Integer.valueOf(words[2]), null, words[3])).get();
            case "offset" -> producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(words[2], 0), new OffsetAndMetadata(Long.parseLong(words[3]))),
                    new ConsumerGroupMetadata(words[1]));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "read" -> {
                return String.join(" ", committed(bootstrap, words[1]));
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
        return "";
    }

    private static List<String> committed(String bootstrap, String topic) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", "read_committed");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        TopicPartition partition = new TopicPartition(topic, 0);
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition), DEADLINE).get(partition);
            while (consumer.position(partition, DEADLINE) < end) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                    values.add(each.value());
                }
            }
        }
        return values;
    }

    private interface Step {
        String run() throws Exception;
    }

    private static void answer(Step step) {
        String told;
        try {
            told = ("ok " + step.run()).trim();
        } catch (Exception error) {
            told = "failed " + error.toString().replace('\n', ' ');
        }
        System.out.println(told);
    }

    private static Properties producerSettings(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[1]);
        settings.put("transaction.timeout.ms", arguments[2]);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        return settings;
    }
}
