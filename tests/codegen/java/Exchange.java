import com.example.shop.Messages;
import com.example.shop.payloads.OrderPlaced2Types;
import com.example.shop.shop_orders.OrderPlaced_2;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Orders to and from Kafka by generated classes and Kafka's own client: SERVERS TOPIC produce SHOP | consume COUNT. */
final class Exchange {
  private Exchange() {}

  public static void main(String[] arguments) throws Exception {
    if (arguments[2].equals("produce")) {
      produce(arguments[0], arguments[1], arguments[3]);
    } else {
      consume(arguments[0], arguments[1], Integer.parseInt(arguments[3]));
    }
  }

  private static void produce(String servers, String topic, String shop) throws Exception {
    OrderPlaced2Types.OrderPlaced order = new OrderPlaced2Types.OrderPlaced();
    order.kind = "new";
    order.total = 2.5;
    order.buyer = new OrderPlaced2Types.Buyer();
    order.buyer.eMail = shop + "@example.com";
    Map<String, Object> settings = Map.of("bootstrap.servers", servers);
    try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer())) {
      for (Messages.Mode mode : Messages.Mode.values()) {
        var made = Messages.toKafka(OrderPlaced_2.build(order, shop), topic, shop, mode);
        var record = new ProducerRecord<>(made.topic(), made.key(), made.value());
        made.headers().forEach((name, value) -> record.headers().add(name, value));
        producer.send(record).get();
      }
    }
  }

  private static void consume(String servers, String topic, int count) throws Exception {
    Map<String, Object> settings =
        Map.of("bootstrap.servers", servers, "group.id", topic + "-java", "auto.offset.reset", "earliest");
    try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new ByteArrayDeserializer())) {
      consumer.subscribe(List.of(topic));
      for (int left = count; left > 0; ) {
        for (ConsumerRecord<String, byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
          Map<String, byte[]> headers = new LinkedHashMap<>();
          record.headers().forEach(header -> headers.put(header.key(), header.value()));
          var message = new Messages.KafkaRecord(record.topic(), record.key(), headers, record.value());
          var order = OrderPlaced_2.parse(Messages.fromKafka(message));
          byte[] line = new ObjectMapper().writeValueAsBytes(List.of(order.context().get("shop"), order.payload()));
          System.out.println(new String(line, StandardCharsets.UTF_8));
          left -= 1;
        }
      }
    }
  }
}
