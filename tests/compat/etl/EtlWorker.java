import java.io.FileWriter;
import java.io.PrintWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A worker of an ETL with Kafka's own clients; what it does and notes is written in worker_program.py.
 *
 * Arguments: bootstrap servers, name, group, source, sink, file for the notes, group protocol.
 */
public final class EtlWorker {
    private static volatile boolean ending = false;
    private static PrintWriter notes;
    private static int readings = 0;

    public static void main(String[] arguments) throws Exception {
        String worker = arguments[1], source = arguments[3], sink = arguments[4];
        notes = new PrintWriter(new FileWriter(arguments[5], true), true);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ending = true;
            try {
                main.join(60_000);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        while (!ending) {
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerSettings(arguments));
                    KafkaProducer<String, String> producer = new KafkaProducer<>(producerSettings(arguments))) {
                consumer.subscribe(List.of(source), new Listener());
                while (!ending) {
                    batch(worker, sink, consumer, producer);
                }
            } catch (Exception error) {
                note("failed", ", \"error\": " + quoted(error.toString()));
            }
        }
    }

    private static void batch(
            String worker, String sink, KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer)
            throws Exception {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) {
            return;
        }
        readings++;
        Map<Integer, List<Long>> read = new TreeMap<>();
        Map<TopicPartition, OffsetAndMetadata> next = new java.util.HashMap<>();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (ConsumerRecord<String, String> each : records) {
            read.computeIfAbsent(each.partition(), number -> new ArrayList<>()).add(each.offset());
            next.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
        }
        note("read", ", \"reading\": " + readings + ", \"offsets\": " + json(read));
        for (ConsumerRecord<String, String> each : records) {
            String origin = worker + " " + readings + " " + each.partition() + " " + each.offset();
            String value = origin + " " + each.value().toUpperCase(Locale.ROOT);
            sent.add(producer.send(new ProducerRecord<>(sink, each.partition(), null, value)));
        }
        producer.flush();
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
        note("published", ", \"reading\": " + readings);
        Map<Integer, Long> offsets = new TreeMap<>();
        next.forEach((partition, offset) -> offsets.put(partition.partition(), offset.offset()));
        note("commit asked", ", \"offsets\": " + json(offsets));
        try {
            consumer.commitSync(next);
        } catch (Exception error) {
            note("commit refused", ", \"offsets\": " + json(offsets) + ", \"error\": " + quoted(error.toString()));
            return;
        }
        note("committed", ", \"offsets\": " + json(offsets));
    }

    private static final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            partitions("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            partitions("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            partitions("lost", partitions);
        }

        private void partitions(String event, Collection<TopicPartition> partitions) {
            note(event, ", \"partitions\": "
                    + partitions.stream().map(TopicPartition::partition).sorted().collect(Collectors.toList()));
        }
    }

    private static Properties consumerSettings(String[] arguments) {
        Properties settings = commonSettings(arguments);
        settings.put("group.id", arguments[2]);
        settings.put("group.protocol", arguments[6]);
        if (arguments[6].equals("classic")) { // the consumer protocol leaves these to the coordinator
            settings.put("session.timeout.ms", "10000");
            settings.put("heartbeat.interval.ms", "1000");
        }
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "50");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        return settings;
    }

    private static Properties producerSettings(String[] arguments) {
        Properties settings = commonSettings(arguments);
        settings.put("acks", "all");
        settings.put("enable.idempotence", "true");
        settings.put("linger.ms", "2");
        settings.put("delivery.timeout.ms", "60000");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        return settings;
    }

    private static Properties commonSettings(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.id", arguments[1]);
        return settings;
    }

    private static synchronized void note(String event, String fields) {
        notes.println("{\"at_s\": " + System.nanoTime() / 1e9 + ", \"event\": " + quoted(event) + fields + "}");
    }

    private static String json(Map<Integer, ?> values) {
        return values.entrySet().stream()
                .map(each -> "\"" + each.getKey() + "\": " + each.getValue())
                .collect(Collectors.joining(", ", "{", "}"));
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + "\"";
    }
}
