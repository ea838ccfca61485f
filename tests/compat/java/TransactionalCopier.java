import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies records from topic to topic in transactions, with Kafka's own clients; what it does is written in
 * ../exactly_once/copier_program.py.
 *
 * Arguments: bootstrap servers, name, source, sink, seed, records of a batch, share of aborts, transaction timeout and
 * session timeout in ms, exit code when it is fenced.
 */
public final class TransactionalCopier {
    private static volatile boolean ending = false;

    private final String name;
    private final String sink;
    private final Random chance;
    private final double abortChance;
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;

    private TransactionalCopier(String[] arguments, Random chance) {
        name = arguments[1];
        sink = arguments[3];
        this.chance = chance;
        abortChance = Double.parseDouble(arguments[6]);
        producer = new KafkaProducer<>(producerSettings(arguments));
        KafkaConsumer<byte[], byte[]> made = null;
        try {
            producer.initTransactions();
            made = new KafkaConsumer<>(consumerSettings(arguments));
            made.subscribe(List.of(arguments[2]));
        } finally {
            if (made == null) {
                producer.close(Duration.ZERO);
            }
        }
        consumer = made;
    }

    public static void main(String[] arguments) throws Exception {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ending = true;
            try {
                main.join(25_000);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        Random chance = new Random(Long.parseLong(arguments[4]));
        while (!ending) {
            TransactionalCopier copier = null;
            try {
                copier = new TransactionalCopier(arguments, chance);
                System.out.println("ready");
                while (!ending) {
                    copier.copy();
                }
            } catch (Exception error) {
                error.printStackTrace();
                if (isFenced(error)) {
                    System.out.println("fenced");
                    Runtime.getRuntime().halt(Integer.parseInt(arguments[9]));
                }
            } finally {
                if (copier != null) {
                    copier.close();
                }
            }
        }
    }

    private void copy() {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) {
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> each : records) {
            producer.send(new ProducerRecord<>(sink, each.partition(), each.key(), each.value()));
            offsets.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        if (chance.nextDouble() < abortChance) {
            producer.abortTransaction();
            goBack();
        } else {
            producer.commitTransaction();
        }
    }

    private void goBack() {
        Collection<TopicPartition> assigned = new ArrayList<>(consumer.assignment());
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(new java.util.HashSet<>(assigned));
        for (TopicPartition each : assigned) {
            OffsetAndMetadata offset = committed.get(each);
            consumer.seek(each, offset == null ? 0 : offset.offset());
        }
    }

    private void close() {
        try {
            consumer.close();
        } catch (Exception error) {
            System.err.println(name + ": " + error);
        }
        producer.close(Duration.ZERO);
    }

    private static boolean isFenced(Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (each instanceof ProducerFencedException || each instanceof InvalidProducerEpochException) {
                return true;
            }
        }
        return false;
    }

    private static Properties producerSettings(String[] arguments) {
        Properties settings = commonSettings(arguments);
        settings.put("transactional.id", arguments[1]);
        settings.put("transaction.timeout.ms", arguments[7]);
        settings.put("linger.ms", "2");
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        return settings;
    }

    private static Properties consumerSettings(String[] arguments) {
        Properties settings = commonSettings(arguments);
        settings.put("group.id", arguments[1]);
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", arguments[5]);
        settings.put("session.timeout.ms", arguments[8]);
        settings.put("heartbeat.interval.ms", "1000");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return settings;
    }

    private static Properties commonSettings(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("reconnect.backoff.max.ms", "500");
        return settings;
    }
}
