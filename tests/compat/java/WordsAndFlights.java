import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;

/**
 * An instance of a Kafka Streams application with exactly_once_v2: it counts the words of `lines` into `counts`, each
 * count of each word, and joins `departures` and `arrivals`, by the flight, into `flights`.
 *
 * Arguments: bootstrap servers, application id, directory of its state, replicas of its topics.
 */
public final class WordsAndFlights {
    private static final Duration A_DAY = Duration.ofDays(1);

    public static void main(String[] arguments) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream("lines");
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word)
                .count()
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to("counts");
        KStream<String, String> departures = builder.stream("departures");
        KStream<String, String> arrivals = builder.stream("arrivals");
        departures
                .join(
                        arrivals,
                        (from, to) -> from + " " + to,
                        JoinWindows.ofTimeDifferenceAndGrace(A_DAY, A_DAY))
                .to("flights");

        KafkaStreams streams = new KafkaStreams(builder.build(), settings(arguments));
        CountDownLatch ended = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println(now));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(25));
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }

    private static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[2]);
        settings.put("replication.factor", arguments[3]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "100");
        settings.put("statestore.cache.max.bytes", "0"); // so that each count of each word is written
        settings.put("num.stream.threads", "1");
        settings.put("default.key.serde", Serdes.String().getClass().getName());
        settings.put("default.value.serde", Serdes.String().getClass().getName());
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.session.timeout.ms", "6000");
        settings.put("consumer.heartbeat.interval.ms", "1000");
        return settings;
    }
}
