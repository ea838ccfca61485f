// Prints what MirrorMaker's replication policies make of topics' names, a line of tab-separated words for each.
// Arguments: source alias, separator, whether internal topics have it, then topics.

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.mirror.DefaultReplicationPolicy;
import org.apache.kafka.connect.mirror.IdentityReplicationPolicy;

public class MirrorNames {
    public static void main(String[] arguments) {
        String alias = arguments[0];
        Map<String, Object> settings = new HashMap<>();
        settings.put("replication.policy.separator", arguments[1]);
        settings.put("replication.policy.internal.topic.separator.enabled", arguments[2]);
        settings.put("source.cluster.alias", alias);
        for (DefaultReplicationPolicy policy : new DefaultReplicationPolicy[] {
            new DefaultReplicationPolicy(), new IdentityReplicationPolicy()}) {
            policy.configure(settings);
            System.out.println(policy.offsetSyncsTopic(alias) + "\t" + policy.checkpointsTopic(alias));
            for (int index = 3; index < arguments.length; index++) {
                String topic = arguments[index];
                System.out.println(String.join("\t",
                    policy.formatRemoteTopic(alias, topic),
                    String.valueOf(policy.topicSource(topic)),
                    String.valueOf(policy.upstreamTopic(topic)),
                    policy.originalTopic(topic),
                    String.valueOf(policy.isHeartbeatsTopic(topic)),
                    String.valueOf(policy.isCheckpointsTopic(topic)),
                    String.valueOf(policy.isInternalTopic(topic))));
            }
        }
    }
}
