// Prints what MirrorMaker's own classes read of a target, a line of tab-separated words for each fact.
// Arguments: bootstrap servers, alias of the source, topic of offset syncs, then groups.

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

public class MirrorReading {
    static final Duration TIMEOUT = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        String alias = arguments[1];
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", arguments[0]));
        try (MirrorClient client = new MirrorClient(settings)) {
            for (int index = 3; index < arguments.length; index++) {
                String group = arguments[index];
                print("utils", group, RemoteClusterUtils.translateOffsets(settings, alias, group, TIMEOUT));
                print("client", group, client.remoteConsumerOffsets(group, alias, TIMEOUT));
            }
            System.out.println("checkpoint topics\t" + client.checkpointTopics().contains(alias + ".checkpoints.internal"));
            System.out.println("heartbeat topics\t" + String.join(" ", new TreeSet<>(client.heartbeatTopics())));
            System.out.println("hops\t" + client.replicationHops(alias));
            System.out.println("upstream\t" + client.upstreamClusters().contains(alias));
        }
        for (ConsumerRecord<byte[], byte[]> record : all(arguments[0], arguments[2])) {
            OffsetSync sync = OffsetSync.deserializeRecord(record);
            System.out.println("sync\t" + sync.topicPartition() + "\t" + sync.upstreamOffset() + "\t" + sync.downstreamOffset());
        }
        for (ConsumerRecord<byte[], byte[]> record : all(arguments[0], "heartbeats")) {
            Heartbeat heartbeat = Heartbeat.deserializeRecord(record);
            if (heartbeat.sourceClusterAlias().equals(alias)) {
                System.out.println("heartbeat\t" + heartbeat.targetClusterAlias() + "\t" + heartbeat.timestamp());
            }
        }
    }

    static void print(String by, String group, Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<String, OffsetAndMetadata> sorted = new TreeMap<>();
        offsets.forEach((partition, offset) -> sorted.put(partition.toString(), offset));
        sorted.forEach((partition, offset) ->
            System.out.println(by + "\t" + group + "\t" + partition + "\t" + offset.offset() + "\t" + offset.metadata()));
    }

    static Iterable<ConsumerRecord<byte[], byte[]>> all(String bootstrap, String topic) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        List<ConsumerRecord<byte[], byte[]>> found = new java.util.ArrayList<>();
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                records.forEach(found::add);
            }
        }
        return found;
    }
}
