import com.example.shop.Messages;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.cfg.CoercionAction;
import com.fasterxml.jackson.databind.cfg.CoercionInputShape;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.type.LogicalType;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Runs generated classes: one task a line as JSON, one answer a line. Values that are bytes are base64. */
final class Program {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  static {
    MAPPER.coercionConfigFor(LogicalType.Textual).setCoercion(CoercionInputShape.Integer, CoercionAction.Fail);
  }

  private Program() {}

  public static void main(String[] arguments) throws Exception {
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    BufferedReader tasks = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = tasks.readLine(); line != null; line = tasks.readLine()) {
      out.println(MAPPER.writeValueAsString(answer(MAPPER.readTree(line))));
    }
  }

  private static ObjectNode answer(JsonNode task) throws Exception {
    ObjectNode answer = MAPPER.createObjectNode();
    try {
      return answer.set("result", MAPPER.valueToTree(result(task)));
    } catch (InvocationTargetException error) {
      Throwable cause = error.getCause();
      return failed(answer, cause instanceof Exception found ? found : error);
    } catch (RuntimeException error) {
      return failed(answer, error);
    }
  }

  private static ObjectNode failed(ObjectNode answer, Exception error) throws Exception {
    Object findings;
    if (error.getCause() instanceof JsonMappingException unfit) { // what no class of the payload holds
      String path = unfit.getPath().stream().map(each -> "/" + each.getFieldName()).collect(Collectors.joining());
      findings = List.of(Map.of("path", "data" + path, "rule", "class", "message", unfit.getOriginalMessage()));
    } else {
      Method found = Stream.of(error.getClass().getMethods(), error.getClass().getDeclaredMethods())
          .flatMap(Stream::of).filter(each -> each.getName().startsWith("finding")).findFirst().orElseThrow(() -> error);
      found.setAccessible(true);
      Object value = found.invoke(error);
      findings = value instanceof List ? value : List.of(value);
    }
    answer.put("error", error.getClass().getSimpleName().replace("UnexpectedMessageException", "UnexpectedMessage")
        .replace("OutboundException", "OutboundError"));
    return answer.set("findings", MAPPER.valueToTree(findings));
  }

  private static Object result(JsonNode task) throws Exception {
    return switch (task.get("action").textValue()) {
      case "check" -> hidden("Rules", "check", task.get("rules"), task.get("root").intValue(), task.get("value"), "data");
      case "encode" -> hidden("Wire", "encode", task, task.get("root").intValue(), task.get("value"));
      case "decode" -> hidden("Wire", "decode", task, task.get("root").intValue(), bytes(task.get("value")));
      case "kafka", "http", "event", "message" -> sent(task);
      default -> read(task);
    };
  }

  /** A method that other packages do not see. */
  private static Object hidden(String type, String name, Object... arguments) throws Exception {
    for (Method method : Class.forName("com.example.shop." + type).getDeclaredMethods()) {
      if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
        method.setAccessible(true);
        return method.invoke(null, arguments);
      }
    }
    throw new IllegalStateException(name);
  }

  private static byte[] bytes(JsonNode text) {
    return text == null || text.isNull() ? null : Base64.getDecoder().decode(text.asText());
  }

  private static Method method(String type, String name) throws Exception {
    return Stream.of(Class.forName(type).getMethods()).filter(each -> each.getName().equals(name)).findFirst().orElseThrow();
  }

  private static Object sent(JsonNode task) throws Exception {
    Method build = method(task.get("module").textValue(), "build");
    Object[] arguments = new Object[build.getParameterCount()];
    Class<?> runtime = build.getReturnType().getDeclaringClass();
    JsonNode payload = task.get("payload");
    arguments[0] = MAPPER.convertValue(payload, MAPPER.constructType(build.getGenericParameterTypes()[0]));
    for (int place = 1; place < arguments.length; place++) {
      String name = build.getParameters()[place].getName();
      arguments[place] = task.path("values").path(name).textValue();
    }
    Object built = build.invoke(null, arguments);
    JsonNode given = task.path("given");
    String topic = given.path("topic").textValue();
    String key = given.path("key").textValue();
    Object mode = null;
    for (Object each : Class.forName(runtime.getName() + "$Mode").getEnumConstants()) {
      mode = each.toString().equalsIgnoreCase(given.path("mode").asText()) ? each : mode;
    }
    ObjectNode made = switch (task.get("action").textValue()) {
      case "kafka" -> MAPPER.valueToTree(method(runtime.getName(), "toKafka").invoke(null, built, topic, key, mode));
      case "http" -> MAPPER.valueToTree(method(runtime.getName(), "toHttp").invoke(null, built, null, null, mode));
      case "event" -> MAPPER.createObjectNode().put("event", new String(
          (byte[]) method(runtime.getName(), "cloudEvent").invoke(null, built), StandardCharsets.UTF_8));
      default -> message((Messages.Outbound) built);
    };
    if (made.path("headers").isObject() && made.has("topic")) {
      made.get("headers").properties().forEach(
          each -> each.setValue(MAPPER.valueToTree(new String(bytes(each.getValue()), StandardCharsets.UTF_8))));
    }
    return made.has("event") ? made.get("event") : made;
  }

  private static ObjectNode message(Messages.Outbound built) {
    ObjectNode made = MAPPER.createObjectNode().put("contentType", built.contentType());
    made.put("body", Base64.getEncoder().encodeToString(built.body()));
    return made.set("options", MAPPER.valueToTree(built.options()));
  }

  private static Object read(JsonNode task) throws Exception {
    Method parse = method(task.get("module").textValue(), "parse");
    Class<?> runtime = parse.getReturnType().getDeclaringClass();
    Object message;
    if (task.has("record")) {
      ObjectNode record = ((ObjectNode) task.get("record")).deepCopy();
      record.get("headers").properties().forEach(
          each -> each.setValue(MAPPER.valueToTree(each.getValue().textValue().getBytes(StandardCharsets.UTF_8))));
      Object found = MAPPER.treeToValue(record, Class.forName(runtime.getName() + "$KafkaRecord"));
      message = method(runtime.getName(), "fromKafka").invoke(null, found);
    } else if (task.has("request")) {
      Object found = MAPPER.treeToValue(task.get("request"), Class.forName(runtime.getName() + "$HttpRequest"));
      message = method(runtime.getName(), "fromHttp").invoke(null, found);
    } else if (task.has("event")) {
      byte[] event = task.get("event").textValue().getBytes(StandardCharsets.UTF_8);
      message = method(runtime.getName(), "fromCloudEvent").invoke(null, event);
    } else {
      JsonNode given = task.get("message");
      Map<String, List<String>> options = new LinkedHashMap<>();
      given.get("options").properties().forEach(each -> options.put(each.getKey(), List.of(each.getValue().textValue())));
      String protocol = options.containsKey("topic") ? "KAFKA" : "NATS";
      message = new Messages.Message(
          protocol, given.get("contentType").textValue(), null, options, bytes(given.get("body")));
    }
    Object typed = parse.invoke(null, message);
    ObjectNode made = MAPPER.createObjectNode();
    // The payload as its class has it, and not the data it was made of.
    made.set("payload", MAPPER.valueToTree(typed.getClass().getMethod("payload").invoke(typed)));
    made.set("context", MAPPER.valueToTree(typed.getClass().getMethod("context").invoke(typed)));
    return made.set("attributes", MAPPER.valueToTree(typed.getClass().getMethod("attributes").invoke(typed)));
  }
}
