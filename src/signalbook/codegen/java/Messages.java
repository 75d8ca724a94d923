import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Messages built of typed payloads, and read back; CloudEvents in Kafka, in HTTP and in JSON. */
public final class Messages {
  private static final String SPECVERSION = "1.0";
  private static final String JSON_EVENT = "application/cloudevents+json";
  private static final ObjectMapper MAPPER =
      JsonMapper.builder()
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
          .disable(SerializationFeature.FAIL_ON_EMPTY_BEANS)
          .build();

  private Messages() {}

  /** What is wrong with a message, and where: a path such as {@code data/items/0/count}. */
  public record Finding(String path, String rule, String message) {
    @Override
    public String toString() {
      return path + ": " + message + " [" + rule + "]";
    }
  }

  /** What is wrong with a message. */
  public abstract static class MessageException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final transient List<Finding> findings;

    MessageException(String xid, List<Finding> findings) {
      super(xid + ": " + findings.stream().map(Finding::toString).collect(Collectors.joining("; ")));
      this.findings = List.copyOf(findings);
    }

    /** All that is wrong, each with its path. */
    public final List<Finding> findings() {
      return findings;
    }
  }

  /** A message that its definition does not allow. */
  public static final class OutboundException extends MessageException {
    private static final long serialVersionUID = 1L;

    OutboundException(String xid, List<Finding> findings) {
      super(xid, findings);
    }

    OutboundException(String xid, String path, String rule, String message) {
      this(xid, List.of(new Finding(path, rule, message)));
    }
  }

  /** A received message that is not of the definition it was read by. */
  public static final class UnexpectedMessageException extends MessageException {
    private static final long serialVersionUID = 1L;

    UnexpectedMessageException(String xid, List<Finding> findings) {
      super(xid, findings);
    }
  }

  /**
   * A message that was built. {@code context} has the values of placeholders, {@code attributes} are those of the
   * CloudEvent, null for a message that is none, {@code options} those of the protocol by name.
   */
  public record Outbound(
      Definition definition,
      Map<String, String> context,
      Map<String, Object> attributes,
      Map<String, String> options,
      byte[] body,
      String contentType) {}

  /**
   * A message as it was received. {@code protocol} is {@code KAFKA}, {@code HTTP} and so on, empty for an event in a
   * file; {@code attributes} are those of an event in binary mode, null where there are none; {@code options} those of
   * the protocol by name, such as {@code topic} and {@code headers.kind}.
   */
  public record Message(
      String protocol,
      String contentType,
      Map<String, Object> attributes,
      Map<String, List<String>> options,
      byte[] body) {}

  /**
   * What a message of a definition says. {@code data} is the payload as it was sent, with members that no class has;
   * null where no schema describes it.
   */
  public record TypedMessage<P>(
      P payload, JsonNode data, Map<String, String> context, Map<String, Object> attributes, Message message) {}

  /** How an event is sent, where its definition does not say. */
  public enum Mode {
    BINARY,
    STRUCTURED
  }

  /** How payloads of a schema are written, and what they are held to. */
  public static final class PayloadSchema {
    private final JsonNode table;

    /** The schema in pieces of JSON, as generated classes have it. */
    public PayloadSchema(String... json) {
      table = parsed(String.join("", json));
    }
  }

  /** A message definition, and the type of its payload. */
  public static final class Definition {
    private final JsonNode table;

    /** The definition in pieces of JSON, as generated classes have it. */
    public Definition(String... json) {
      table = parsed(String.join("", json));
    }

    /** Where it is in its registry. */
    public String xid() {
      return table.get("xid").textValue();
    }

    private String text(String name) {
      return table.path(name).asText("");
    }

    private boolean isEvent() {
      return table.get("event").booleanValue();
    }
  }

  private static JsonNode parsed(String json) {
    try {
      return MAPPER.readTree(json);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  /** A message of a definition. Throws OutboundException with everything that is wrong. */
  public static Outbound build(
      Definition definition,
      PayloadSchema schema,
      Object payload,
      Map<String, Object> context,
      Map<String, Object> values) {
    List<Finding> findings = new ArrayList<>();
    Map<String, String> known = placeholders(context, findings);
    Map<String, String> options = new LinkedHashMap<>();
    Map<String, Object> found = new LinkedHashMap<>();
    for (JsonNode property : definition.table.get("properties")) {
      Object value = valueOf(definition, property, known, values, findings);
      if (value == null) {
        continue;
      }
      if (property.has("attribute")) {
        found.put(property.get("name").textValue(), simple(property.get("type").textValue(), value));
      } else {
        options.put(property.get("path").textValue().substring("protocoloptions.".length()), value.toString());
      }
    }
    byte[] body = written(definition, schema, payload, findings);
    Object stated = found.containsKey("datacontenttype") ? found.get("datacontenttype") : contentTypeOf(options);
    String contentType = body == null ? "" : stated == null ? definition.text("contentType") : stated.toString();
    Map<String, Object> attributes = null;
    if (definition.isEvent()) {
      attributes = eventAttributes(definition, found, contentType);
      if (findings.isEmpty()) {
        findings.addAll(invalidAttributes(attributes));
      }
    }
    if (!findings.isEmpty()) {
      throw new OutboundException(definition.xid(), findings);
    }
    return new Outbound(definition, known, attributes, options, body, contentType);
  }

  /** Names and values, in turn; generated classes call it. */
  public static Map<String, Object> named(Object... pairs) {
    Map<String, Object> made = new LinkedHashMap<>();
    for (int place = 0; place < pairs.length; place += 2) {
      made.put((String) pairs[place], pairs[place + 1]);
    }
    return made;
  }

  private static Map<String, String> placeholders(Map<String, Object> given, List<Finding> findings) {
    Map<String, String> known = new LinkedHashMap<>();
    given.forEach(
        (name, value) -> {
          if (value != null && value.toString().isEmpty()) {
            findings.add(new Finding("{" + name + "}", "context", "must not be empty"));
          } else if (value != null) {
            known.put(name, value.toString());
          }
        });
    return known;
  }

  private static Object valueOf(
      Definition definition,
      JsonNode property,
      Map<String, String> context,
      Map<String, Object> values,
      List<Finding> findings) {
    if (property.has("input")) {
      String path = property.get("path").textValue();
      Object value = values.get(path.replaceFirst("^envelopemetadata\\.", ""));
      if (value != null && isOfType(property.get("type").textValue(), value)) {
        return value;
      }
      String message = "must be of type " + property.get("type").textValue();
      findings.add(new Finding(path, value == null ? "required" : "type", message));
      return null;
    }
    if (property.has("template")) {
      return expanded(property, context, findings);
    }
    if (property.has("now")) {
      return now();
    }
    if (property.has("value")) {
      return property.get("value").textValue();
    }
    return property.has("attribute") ? ownValue(definition, property) : null;
  }

  private static String now() {
    return Instant.now().truncatedTo(ChronoUnit.MILLIS).toString();
  }

  /** The value of an attribute that a definition leaves open. */
  private static String ownValue(Definition definition, JsonNode property) {
    return switch (property.get("name").textValue()) {
      case "id" -> UUID.randomUUID().toString();
      case "type" -> definition.text("id");
      case "time" -> now();
      case "datacontenttype" ->
          property.has("required") && !definition.text("contentType").isEmpty() ? definition.text("contentType") : null;
      case "dataschema" -> definition.table.path("dataschema").textValue();
      default -> null;
    };
  }

  private static String expanded(JsonNode property, Map<String, String> context, List<Finding> findings) {
    JsonNode template = property.get("template");
    String path = property.get("path").textValue();
    Set<String> missing = new TreeSet<>();
    template.get("names").forEach(name -> missing.add(name.textValue()));
    missing.removeAll(context.keySet());
    if (!missing.isEmpty()) {
      if (property.has("required")) {
        String message = template.get("text").textValue() + " needs " + String.join(", ", missing);
        findings.add(new Finding(path, "context", message));
      }
      return null;
    }
    StringBuilder text = new StringBuilder(template.get("literals").get(0).textValue());
    for (int place = 0; place < template.get("names").size(); place++) {
      text.append(quoted(template, context.get(template.get("names").get(place).textValue())));
      text.append(template.get("literals").get(place + 1).textValue());
    }
    // Read back: values with the separator in them would come out as other values at the consumer.
    Map<String, String> read = matched(template, text.toString());
    for (JsonNode name : template.get("names")) {
      if (read == null || !context.get(name.textValue()).equals(read.get(name.textValue()))) {
        String message = template.get("text").textValue() + " would be " + text + ", which is read as something else";
        findings.add(new Finding(path, "context", message));
        return null;
      }
    }
    return text.toString();
  }

  private static boolean isWhole(JsonNode template) {
    JsonNode literals = template.get("literals");
    return literals.size() == 2 && literals.get(0).textValue().isEmpty() && literals.get(1).textValue().isEmpty();
  }

  private static String quoted(JsonNode template, String value) {
    if (!template.get("encoded").booleanValue()) {
      return value;
    }
    StringBuilder text = new StringBuilder();
    for (byte each : value.getBytes(StandardCharsets.UTF_8)) {
      boolean plain = each > 0 && String.valueOf((char) each).matches("[A-Za-z0-9_.~-]");
      text.append(plain ? String.valueOf((char) each) : hexadecimal(each));
    }
    String separator = template.get("separator").textValue();
    return isWhole(template)
        ? text.toString()
        : text.toString().replace(separator, hexadecimal((byte) separator.charAt(0)));
  }

  private static String hexadecimal(byte value) {
    return String.format("%%%02X", value);
  }

  /** What the placeholders of a template stand for in a text; null if it does not fit. */
  private static Map<String, String> matched(JsonNode template, String text) {
    JsonNode names = template.get("names");
    JsonNode literals = template.get("literals");
    if (!text.startsWith(literals.get(0).textValue())) {
      return null;
    }
    int place = literals.get(0).textValue().length();
    Map<String, String> found = new LinkedHashMap<>();
    for (int index = 0; index < names.size(); index++) {
      String literal = literals.get(index + 1).textValue();
      boolean last = index == names.size() - 1;
      if (last && !text.endsWith(literal)) {
        return null;
      }
      int end = last ? text.length() - literal.length() : text.indexOf(literal, place + 1);
      if (end <= place) {
        return null;
      }
      String raw = text.substring(place, end);
      if (!isWhole(template) && raw.contains(template.get("separator").textValue())) {
        return null;
      }
      String value = template.get("encoded").booleanValue() ? unquoted(raw) : raw;
      String before = found.putIfAbsent(names.get(index).textValue(), value);
      if (before != null && !before.equals(value)) {
        return null;
      }
      place = end + literal.length();
    }
    return place == text.length() ? found : null;
  }

  private static String unquoted(String text) {
    if (text.indexOf('%') < 0) {
      return text;
    }
    byte[] given = text.getBytes(StandardCharsets.UTF_8);
    ByteBuffer bytes = ByteBuffer.allocate(given.length);
    for (int place = 0; place < given.length; place++) {
      int high = place + 2 < given.length ? Character.digit(given[place + 1], 16) : -1;
      int low = place + 2 < given.length ? Character.digit(given[place + 2], 16) : -1;
      if (given[place] == '%' && high >= 0 && low >= 0) {
        bytes.put((byte) (high * 16 + low));
        place += 2;
      } else {
        bytes.put(given[place]);
      }
    }
    try {
      return StandardCharsets.UTF_8.newDecoder().decode(bytes.flip()).toString();
    } catch (CharacterCodingException error) {
      return text;
    }
  }

  /** The payload in bytes; what is wrong with it is added to the findings. */
  private static byte[] written(Definition definition, PayloadSchema schema, Object payload, List<Finding> findings) {
    if (schema == null) {
      return (byte[]) payload;
    }
    int count = findings.size();
    int root = definition.table.get("root").intValue();
    try {
      JsonNode value = MAPPER.valueToTree(payload);
      checkNumbers(value, "data", findings);
      if (findings.size() > count) {
        return null;
      }
      if (!schema.table.get("format").textValue().equals("json")) {
        return Wire.encode(schema.table, root, value);
      }
      findings.addAll(Rules.check(schema.table.get("rules"), root, value, "data"));
      return MAPPER.writeValueAsBytes(value);
    } catch (Wire.WireException error) {
      findings.add(error.finding());
    } catch (JsonProcessingException | IllegalArgumentException error) {
      findings.add(new Finding("data", "json", "has no form in JSON: " + error.getMessage()));
    }
    return null;
  }

  private static void checkNumbers(JsonNode value, String path, List<Finding> findings) {
    if (value.isFloatingPointNumber() && !Double.isFinite(value.doubleValue())) {
      findings.add(new Finding(path, "json", value + " has no form in JSON"));
    }
    for (Map.Entry<String, JsonNode> each : value.properties()) {
      checkNumbers(each.getValue(), path + "/" + each.getKey(), findings);
    }
    for (int place = 0; value.isArray() && place < value.size(); place++) {
      checkNumbers(value.get(place), path + "/" + place, findings);
    }
  }

  private static String contentTypeOf(Map<String, String> options) {
    for (Map.Entry<String, String> each : options.entrySet()) {
      boolean own = each.getValue().toLowerCase(Locale.ROOT).startsWith("application/cloudevents");
      if (each.getKey().equalsIgnoreCase("headers.content-type") && !own) {
        return each.getValue();
      }
    }
    return null;
  }

  private static Map<String, Object> eventAttributes(
      Definition definition, Map<String, Object> found, String contentType) {
    Map<String, Object> made = new LinkedHashMap<>();
    made.put("specversion", SPECVERSION);
    made.put("id", found.getOrDefault("id", UUID.randomUUID().toString()));
    if (found.containsKey("source")) {
      made.put("source", found.get("source"));
    }
    made.put("type", found.getOrDefault("type", definition.text("id")));
    found.forEach(made::putIfAbsent);
    if (definition.table.has("dataschema")) {
      made.putIfAbsent("dataschema", definition.text("dataschema"));
    }
    made.remove("datacontenttype");
    if (!contentType.isEmpty()) {
      made.put("datacontenttype", contentType);
    }
    return made;
  }

  private static final String URI = "[A-Za-z0-9\\-._~:/?#\\[\\]@!$&'()*+,;=%]";
  private static final Map<String, Pattern> FORMS =
      Map.of(
          "binary", Pattern.compile("([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"),
          "boolean", Pattern.compile("true|false"),
          "duration",
              Pattern.compile("P(?!$)(\\d+W|(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+(\\.\\d+)?S)?)?)"),
          "number", Pattern.compile("-?(0|[1-9]\\d*)(\\.\\d+)?([eE][+-]?\\d+)?"),
          "symbol", Pattern.compile("[A-Za-z0-9_]+"),
          "timestamp",
              Pattern.compile(
                  "\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])[Tt]([01]\\d|2[0-3]):[0-5]\\d:([0-5]\\d|60)"
                      + "(\\.\\d{1,12})?([Zz]|[+-]([01]\\d|2[0-3]):[0-5]\\d)"),
          "uri", Pattern.compile("[A-Za-z][A-Za-z0-9+.\\-]*:" + URI + "*"),
          "urireference", Pattern.compile(URI + "+"),
          "uuid", Pattern.compile("(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"));

  private static boolean isOfType(String type, Object value) {
    String text = value.toString();
    if (type.equals("integer") || type.equals("ulong")) {
      if (value instanceof Boolean || !text.matches("-?(0|[1-9]\\d{0,19})")) {
        return false;
      }
      BigInteger number = new BigInteger(text);
      return type.equals("integer") ? number.bitLength() < 32 : number.signum() >= 0 && number.bitLength() <= 64;
    }
    Pattern form = FORMS.get(type);
    return form == null ? type.equals("any") || value instanceof String : form.matcher(text).matches();
  }

  /** Whole numbers and booleans as such, all else as it is. */
  private static Object simple(String type, Object value) {
    return switch (type) {
      case "boolean" -> Boolean.valueOf(value.toString());
      case "integer" -> Integer.valueOf(value.toString());
      default -> value;
    };
  }

  private static final List<String> REQUIRED = List.of("specversion", "id", "source", "type");
  private static final Set<String> CORE =
      Set.of("specversion", "id", "source", "type", "subject", "time", "dataschema", "datacontenttype");
  private static final Map<String, String> ATTRIBUTE_FORMS =
      Map.of("source", "urireference", "dataschema", "uri", "time", "timestamp");
  private static final Pattern FORBIDDEN =
      Pattern.compile("[\\u0000-\\u001f\\u007f-\\u009f\\ud800-\\udfff\\ufdd0-\\ufdef\\ufffe\\uffff]");

  /** What is wrong with the context attributes of a CloudEvent. */
  private static List<Finding> invalidAttributes(Map<String, Object> attributes) {
    List<Finding> findings = new ArrayList<>();
    for (String name : REQUIRED) {
      if (!attributes.containsKey(name)) {
        findings.add(new Finding(name, "required", "is required"));
      }
    }
    attributes.forEach(
        (name, value) -> {
          String message = faultOf(name, value);
          if (!message.isEmpty()) {
            findings.add(new Finding(name, "cloudevents", message));
          }
        });
    return findings;
  }

  private static String faultOf(String name, Object value) {
    if (!name.matches("[a-z0-9]+") || name.equals("data")) {
      return "is no name of an attribute";
    }
    if (!(value instanceof String text)) {
      boolean fits = !CORE.contains(name) && (value instanceof Boolean || isOfType("integer", value));
      return fits ? "" : "must be text, or a boolean or a small integer beside the core attributes";
    }
    if (FORBIDDEN.matcher(text).find()) {
      return "has a control character, a noncharacter or half a character";
    }
    if (!CORE.contains(name)) {
      return "";
    }
    if (text.isEmpty()) {
      return "must not be empty";
    }
    if (name.equals("specversion") && !text.equals(SPECVERSION)) {
      return "must be " + SPECVERSION;
    }
    String form = ATTRIBUTE_FORMS.get(name);
    return form == null || isOfType(form, text) ? "" : "must be of type " + form;
  }

  private static String modeOf(Outbound outbound, Mode wanted) {
    if (outbound.attributes() == null) {
      return "";
    }
    String declared = outbound.definition().text("mode");
    String mode = wanted == null ? "" : wanted.name().toLowerCase(Locale.ROOT);
    if (!declared.isEmpty() && !mode.isEmpty() && !mode.equals(declared)) {
      String message = "the definition says " + declared + ", not " + mode;
      throw new OutboundException(outbound.definition().xid(), "envelopeoptions.mode", "mode", message);
    }
    return declared.isEmpty() ? mode.isEmpty() ? "binary" : mode : declared;
  }

  /** The event in the JSON event format. Throws OutboundException for a message that is none. */
  public static byte[] cloudEvent(Outbound outbound) {
    if (outbound.attributes() == null) {
      throw new OutboundException(outbound.definition().xid(), "envelope", "envelope", "the message is no CloudEvent");
    }
    ObjectNode event = MAPPER.valueToTree(outbound.attributes());
    byte[] body = outbound.body();
    if (body != null) {
      addData(event, body, outbound.contentType());
    }
    try {
      return MAPPER.writeValueAsBytes(event);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  private static void addData(ObjectNode event, byte[] body, String contentType) {
    try {
      if (isJson(contentType)) {
        event.set("data", MAPPER.readTree(body));
        return;
      }
      if (contentType.startsWith("text/")) {
        event.put("data", StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body)).toString());
        return;
      }
    } catch (IOException error) {
      // Data that is not what it says is kept as bytes.
    }
    event.put("data_base64", Base64.getEncoder().encodeToString(body));
  }

  private static boolean isJson(String contentType) {
    String name = mediaType(contentType);
    return name.equals("application/json") || name.equals("text/json") || name.endsWith("+json");
  }

  private static String mediaType(String contentType) {
    return contentType.split(";", 2)[0].strip().toLowerCase(Locale.ROOT);
  }

  /** A record of Kafka. */
  public record KafkaRecord(String topic, String key, Map<String, byte[]> headers, byte[] value) {}

  /** The message as a record; topic, key and mode, which may be null, are for definitions that do not say them. */
  public static KafkaRecord toKafka(Outbound outbound, String topic, String key, Mode mode) {
    Definition definition = outbound.definition();
    carried(definition, "KAFKA");
    String place = outbound.options().getOrDefault("topic", topic == null ? "" : topic);
    if (!place.matches("(?!\\.{1,2}$)[A-Za-z0-9._-]{1,249}")) {
      String message = "\"" + place + "\" is no topic of Kafka";
      throw new OutboundException(definition.xid(), "protocoloptions.topic", "value", message);
    }
    String chosen = modeOf(outbound, mode);
    Map<String, byte[]> headers = new LinkedHashMap<>();
    headersOf(outbound, chosen, "ce_")
        .forEach((name, value) -> headers.put(name, value.getBytes(StandardCharsets.UTF_8)));
    byte[] body = chosen.equals("structured") ? cloudEvent(outbound) : outbound.body();
    return new KafkaRecord(place, outbound.options().getOrDefault("key", key), headers, body);
  }

  /** A request of HTTP. */
  public record HttpRequest(
      String method, String path, Map<String, List<String>> query, Map<String, String> headers, byte[] body) {}

  /** The message as a request; method, path and mode, which may be null, are for definitions that do not say them. */
  public static HttpRequest toHttp(Outbound outbound, String method, String path, Mode mode) {
    Definition definition = outbound.definition();
    carried(definition, "HTTP");
    String chosen = modeOf(outbound, mode);
    Map<String, String> headers = headersOf(outbound, chosen, "ce-");
    headers.forEach(
        (name, value) -> {
          boolean printable = value.isEmpty() || value.matches("[\\x21-\\x7e]([\\x20-\\x7e\\t]*[\\x21-\\x7e])?");
          if (!printable || !name.matches("[!#$%&'*+.^_`|~0-9A-Za-z-]+")) {
            String place = "protocoloptions.headers." + name;
            throw new OutboundException(definition.xid(), place, "value", "is no header of HTTP: printable ASCII");
          }
        });
    Map<String, List<String>> query = new LinkedHashMap<>();
    outbound
        .options()
        .forEach(
            (name, value) -> {
              if (name.startsWith("query.")) {
                query.put(name.substring("query.".length()), List.of(value));
              }
            });
    byte[] body = chosen.equals("structured") ? cloudEvent(outbound) : outbound.body();
    return new HttpRequest(
        outbound.options().getOrDefault("method", method == null ? "POST" : method),
        outbound.options().getOrDefault("path", path == null ? "/" : path),
        query,
        headers,
        body);
  }

  private static void carried(Definition definition, String protocol) {
    String own = definition.text("protocol");
    if (!own.isEmpty() && !own.equals(protocol)) {
      throw new OutboundException(definition.xid(), "protocol", "protocol", "the definition is for " + own);
    }
  }

  private static Map<String, String> headersOf(Outbound outbound, String mode, String prefix) {
    Map<String, String> headers = new LinkedHashMap<>();
    String contentType = mode.equals("structured") ? JSON_EVENT : outbound.contentType();
    if (!contentType.isEmpty()) {
      headers.put("content-type", contentType);
    }
    if (mode.equals("binary")) {
      outbound
          .attributes()
          .forEach(
              (name, value) -> {
                if (!name.equals("datacontenttype")) {
                  String text = value.toString();
                  headers.put(prefix + name, prefix.equals("ce-") ? percentEncoded(text) : text);
                }
              });
    }
    outbound
        .options()
        .forEach(
            (name, value) -> {
              if (name.startsWith("headers.")) {
                String own = name.substring("headers.".length());
                headers.put(own.equalsIgnoreCase("content-type") ? "content-type" : own, value);
              }
            });
    return headers;
  }

  private static String percentEncoded(String text) {
    StringBuilder made = new StringBuilder();
    for (byte each : text.getBytes(StandardCharsets.UTF_8)) {
      boolean plain = each > 0x20 && each < 0x7f && each != '"' && each != '%';
      made.append(plain ? String.valueOf((char) each) : hexadecimal(each));
    }
    return made.toString();
  }

  private static String percentDecoded(String text) {
    boolean quotes = text.length() > 1 && text.startsWith("\"") && text.endsWith("\"");
    return unquoted(quotes ? text.substring(1, text.length() - 1).replaceAll("\\\\(.)", "$1") : text);
  }

  /** A record as a message. */
  public static Message fromKafka(KafkaRecord record) {
    Map<String, List<String>> options = new LinkedHashMap<>();
    options.put("topic", List.of(record.topic()));
    if (record.key() != null) {
      options.put("key", List.of(record.key()));
    }
    Map<String, String> headers = new LinkedHashMap<>();
    record.headers().forEach((name, value) -> headers.put(name, new String(value, StandardCharsets.UTF_8)));
    return received("KAFKA", headers, "ce_", options, record.value());
  }

  /** A request as a message; its headers as they came, in any case. */
  public static Message fromHttp(HttpRequest request) {
    Map<String, List<String>> options = new LinkedHashMap<>();
    options.put("method", List.of(request.method().toUpperCase(Locale.ROOT)));
    options.put("path", List.of(request.path()));
    request.query().forEach((name, values) -> options.put("query." + name, values));
    Map<String, String> headers = new LinkedHashMap<>();
    request.headers().forEach((name, value) -> headers.put(name.toLowerCase(Locale.ROOT), value));
    return received("HTTP", headers, "ce-", options, request.body());
  }

  /** An event in the JSON event format as a message. */
  public static Message fromCloudEvent(byte[] event) {
    return new Message("", JSON_EVENT, null, Map.of(), event);
  }

  private static Message received(
      String protocol, Map<String, String> headers, String prefix, Map<String, List<String>> options, byte[] body) {
    Map<String, Object> attributes = new LinkedHashMap<>();
    headers.forEach(
        (name, value) -> {
          options.put("headers." + name, List.of(value));
          if (name.startsWith(prefix)) {
            attributes.put(name.substring(prefix.length()), prefix.equals("ce-") ? percentDecoded(value) : value);
          }
        });
    String contentType = headers.getOrDefault("content-type", "");
    boolean binary = attributes.keySet().containsAll(REQUIRED);
    if (binary && !contentType.isEmpty()) {
      attributes.put("datacontenttype", contentType);
    }
    return new Message(protocol, contentType, binary ? attributes : null, options, body);
  }

  private record Opened(Map<String, Object> attributes, byte[] body, String contentType, String mode) {}

  /** What a received message says. Throws UnexpectedMessageException for what the definition does not allow. */
  public static <P> TypedMessage<P> parse(
      Definition definition, PayloadSchema schema, TypeReference<P> type, Message message) {
    List<Finding> findings = new ArrayList<>();
    Opened opened = open(message, findings);
    if (definition.isEvent() && opened.attributes == null && findings.isEmpty()) {
      findings.add(new Finding("", "not_cloudevent", "the message is no CloudEvent"));
    }
    Map<String, String> context = new LinkedHashMap<>();
    if (findings.isEmpty()) {
      hold(definition, message, opened, context, findings);
    }
    JsonNode data = schema == null || !findings.isEmpty() ? null : read(definition, schema, opened.body, findings);
    if (!findings.isEmpty()) {
      throw new UnexpectedMessageException(definition.xid(), findings);
    }
    try {
      @SuppressWarnings("unchecked") // without a schema payloads are bytes
      P payload = schema == null ? (P) opened.body : MAPPER.convertValue(data, type);
      return new TypedMessage<>(payload, data, context, opened.attributes, message);
    } catch (IllegalArgumentException error) {
      findings.add(new Finding("data", "type", "has no form in Java: " + error.getMessage()));
      throw new UnexpectedMessageException(definition.xid(), findings);
    }
  }

  private static Opened open(Message message, List<Finding> findings) {
    String contentType = message.contentType();
    Map<String, Object> attributes = message.attributes();
    if (!mediaType(contentType).startsWith("application/cloudevents")) {
      if (attributes == null) {
        return new Opened(null, message.body(), contentType, "");
      }
      findings.addAll(invalidAttributes(attributes));
      String own = attributes.getOrDefault("datacontenttype", "").toString();
      return new Opened(attributes, message.body(), own, "binary");
    }
    if (!mediaType(contentType).equals(JSON_EVENT)) {
      findings.add(new Finding("", "content_type", "events of " + contentType + " are not read here"));
      return new Opened(null, null, "", "structured");
    }
    try {
      return eventOf(MAPPER.readTree(message.body() == null ? new byte[0] : message.body()), findings);
    } catch (IOException error) {
      findings.add(new Finding("", "json", "not JSON: " + error.getMessage()));
      return new Opened(null, null, "", "structured");
    }
  }

  private static Opened eventOf(JsonNode members, List<Finding> findings) throws JsonProcessingException {
    if (!members.isObject()) {
      findings.add(new Finding("", "type", "a CloudEvent in JSON is an object"));
      return new Opened(null, null, "", "structured");
    }
    Map<String, Object> attributes = new LinkedHashMap<>();
    for (Map.Entry<String, JsonNode> each : members.properties()) {
      boolean data = each.getKey().equals("data") || each.getKey().equals("data_base64");
      if (!data && !each.getValue().isNull()) {
        attributes.put(each.getKey(), MAPPER.treeToValue(each.getValue(), Object.class));
      }
    }
    findings.addAll(invalidAttributes(attributes));
    String stated = attributes.getOrDefault("datacontenttype", "").toString();
    JsonNode data = members.get("data");
    JsonNode bytes = members.path("data_base64");
    String contentType = stated.isEmpty() && data != null ? "application/json" : stated;
    byte[] body = null;
    if (bytes.isTextual()) {
      if (data != null || !isOfType("binary", bytes.textValue())) {
        findings.add(new Finding("data_base64", "base64", "is no base64, or beside data"));
      } else {
        body = Base64.getDecoder().decode(bytes.textValue());
      }
    } else if (data != null) {
      boolean asText = !stated.isEmpty() && !isJson(stated) && data.isTextual();
      body = asText ? data.textValue().getBytes(StandardCharsets.UTF_8) : MAPPER.writeValueAsBytes(data);
    }
    return new Opened(attributes, body, contentType, "structured");
  }

  /** Hold what a message has to what its definition declares. */
  private static void hold(
      Definition definition, Message message, Opened opened, Map<String, String> context, List<Finding> findings) {
    String protocol = definition.text("protocol");
    if (!protocol.isEmpty() && !message.protocol().isEmpty() && !message.protocol().equals(protocol)) {
      findings.add(new Finding("protocol", "protocol", "must be " + protocol + ", not " + message.protocol()));
      return;
    }
    String mode = definition.text("mode");
    if (!mode.isEmpty() && !message.protocol().isEmpty() && !opened.mode.equals(mode)) {
      findings.add(new Finding("mode", "mode", "the content mode must be " + mode));
    }
    for (JsonNode property : definition.table.get("properties")) {
      boolean elsewhere = !property.has("attribute") && !message.protocol().equals(protocol);
      if (!property.has("delivery") && !elsewhere) {
        holdProperty(property, message, opened, context, findings);
      }
    }
    String actual = opened.contentType;
    if (!actual.isEmpty() && !definition.text("contentType").isEmpty() && !isAllowed(definition, actual)) {
      findings.add(new Finding("datacontenttype", "content_type", "must be " + definition.text("contentType")));
    }
  }

  private static void holdProperty(
      JsonNode property, Message message, Opened opened, Map<String, String> context, List<Finding> findings) {
    String name = property.get("name").textValue();
    List<? extends Object> values = message.options().getOrDefault(name, List.of());
    if (property.has("attribute")) {
      Object value = opened.attributes == null ? null : opened.attributes.get(name);
      values = value == null ? List.of() : List.of(value);
    }
    if (values.isEmpty() && property.has("required")) {
      findings.add(new Finding(name, "value", "is required"));
    }
    List<String> faults = values.stream().map(each -> unfit(property, each, context)).toList();
    if (!faults.isEmpty() && faults.stream().noneMatch(String::isEmpty)) {
      findings.add(new Finding(name, "value", faults.get(0)));
    }
  }

  /** Why a value is not what a property declares, or "". */
  private static String unfit(JsonNode property, Object value, Map<String, String> context) {
    String type = property.get("type").textValue();
    if (property.has("template")) {
      JsonNode template = property.get("template");
      Map<String, String> found = value instanceof String text ? matched(template, text) : null;
      if (found == null) {
        return "must fit " + template.get("text").textValue() + ", not " + value;
      }
      for (Map.Entry<String, String> each : found.entrySet()) {
        if (!context.getOrDefault(each.getKey(), each.getValue()).equals(each.getValue())) {
          return "has another {" + each.getKey() + "} than is elsewhere";
        }
      }
      context.putAll(found);
      return "";
    }
    if (!property.has("value")) {
      return isOfType(type, value) ? "" : "must be of type " + type + ", not " + value;
    }
    String expected = property.get("value").textValue();
    boolean same =
        property.has("contentType") ? sameContentType(expected, value.toString()) : isSame(type, expected, value);
    return same ? "" : "must be " + expected + ", not " + value;
  }

  private static boolean isSame(String type, String expected, Object value) {
    String actual = value.toString();
    if (actual.equals(expected)) {
      return true;
    }
    return switch (type) {
      case "integer", "ulong", "number" ->
          isOfType("number", actual) && new BigDecimal(actual).compareTo(new BigDecimal(expected)) == 0;
      case "timestamp" -> isOfType(type, actual) && instant(actual).equals(instant(expected));
      case "boolean", "uuid" -> actual.equalsIgnoreCase(expected);
      default -> false;
    };
  }

  private static Instant instant(String text) {
    return OffsetDateTime.parse(text.toUpperCase(Locale.ROOT)).toInstant();
  }

  private static boolean isAllowed(Definition definition, String actual) {
    String expected = definition.text("contentType");
    if (definition.table.get("stated").booleanValue()) {
      return sameContentType(expected, actual);
    }
    if (expected.equals("application/json") && isJson(actual)) {
      return true;
    }
    Set<String> names = new TreeSet<>(List.of(mediaType(expected)));
    definition.table.get("aliases").forEach(each -> names.add(each.textValue()));
    return names.contains(mediaType(actual));
  }

  private static boolean sameContentType(String expected, String actual) {
    return mediaType(expected).equals(mediaType(actual))
        && parameters(actual).entrySet().containsAll(parameters(expected).entrySet());
  }

  private static Map<String, String> parameters(String contentType) {
    Map<String, String> found = new TreeMap<>();
    String[] parts = contentType.split(";");
    for (int place = 1; place < parts.length; place++) {
      String[] pair = parts[place].split("=", 2);
      if (pair.length == 2) {
        String name = pair[0].strip().toLowerCase(Locale.ROOT);
        String value = pair[1].strip().replaceAll("^\"|\"$", "");
        found.put(name, name.equals("charset") ? value.toLowerCase(Locale.ROOT) : value);
      }
    }
    return found;
  }

  private static JsonNode read(Definition definition, PayloadSchema schema, byte[] body, List<Finding> findings) {
    if (body == null) {
      findings.add(new Finding("data", "required", "there is no payload, but the definition has a schema"));
      return null;
    }
    int root = definition.table.get("root").intValue();
    try {
      if (!schema.table.get("format").textValue().equals("json")) {
        return Wire.decode(schema.table, root, body);
      }
      JsonNode value = MAPPER.readTree(body);
      if (value.isMissingNode()) {
        findings.add(new Finding("data", "json", "not JSON: there is nothing"));
        return null;
      }
      checkNumbers(value, "data", findings);
      if (findings.isEmpty()) {
        findings.addAll(Rules.check(schema.table.get("rules"), root, value, "data"));
      }
      return value;
    } catch (Wire.WireException error) {
      findings.add(error.finding());
    } catch (IOException error) {
      findings.add(new Finding("data", "json", "not JSON: " + error.getMessage()));
    }
    return null;
  }
}
