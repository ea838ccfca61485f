// Prints the names of MirrorMaker's settings and of Kafka's clients: KIND, a tab, NAME, a line for each.

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

public class MirrorSettings {
    private static final String PACKAGE = "org.apache.kafka.connect.mirror.";

    public static void main(String[] arguments) throws Exception {
        Set<String> mirror = new TreeSet<>();
        for (String name : new String[] {"MirrorSourceConfig", "MirrorCheckpointConfig", "MirrorHeartbeatConfig"}) {
            Field field = Class.forName(PACKAGE + name).getDeclaredField("CONNECTOR_CONFIG_DEF");
            field.setAccessible(true);
            mirror.addAll(((ConfigDef) field.get(null)).names());
        }
        for (String filter : new String[] {
            "DefaultTopicFilter$TopicFilterConfig", "DefaultGroupFilter$GroupFilterConfig",
            "DefaultConfigPropertyFilter$ConfigPropertyFilterConfig"}) {
            Field field = Class.forName(PACKAGE + filter).getDeclaredField("DEF");
            field.setAccessible(true);
            mirror.addAll(((ConfigDef) field.get(null)).names());
        }
        Method top = Class.forName(PACKAGE + "MirrorMakerConfig").getDeclaredMethod("config");
        top.setAccessible(true);
        mirror.addAll(((ConfigDef) top.invoke(null)).names());
        String runtime = "org.apache.kafka.connect.runtime.distributed.";
        Class<?> crypto = Class.forName(runtime + "Crypto");
        Method worker = Class.forName(runtime + "DistributedConfig").getDeclaredMethod("config", crypto);
        worker.setAccessible(true);
        Field system = crypto.getDeclaredField("SYSTEM");
        system.setAccessible(true);
        print("worker", ((ConfigDef) worker.invoke(null, system.get(null))).names());
        print("mirror", mirror);
        Set<String> clients = new TreeSet<>(ConsumerConfig.configNames());
        clients.addAll(ProducerConfig.configNames());
        clients.addAll(AdminClientConfig.configNames());
        print("client", clients);
    }

    private static void print(String kind, Set<String> names) {
        for (String name : names) {
            System.out.println(kind + "\t" + name);
        }
    }
}
