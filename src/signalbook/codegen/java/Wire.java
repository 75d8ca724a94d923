import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Values in the binary encodings of Avro and Protobuf, by a table of types. */
final class Wire {
  private static final int DEEPEST = 64;
  private static final int MOST_ITEMS = 1_000_000;
  private static final BigInteger GIGA = BigInteger.valueOf(1_000_000_000);
  private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

  private Wire() {}

  /** What is wrong with a value or with bytes, and where. */
  static final class WireException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final transient Messages.Finding finding;

    WireException(String path, String rule, String message) {
      super(path + ": " + message);
      finding = new Messages.Finding(path, rule, message);
    }

    Messages.Finding finding() {
      return finding;
    }
  }

  /** A value in the binary encoding. Throws WireException. */
  static byte[] encode(JsonNode schema, int root, JsonNode value) {
    Writer out = new Writer();
    JsonNode nodes = schema.get("wire");
    if (schema.get("format").textValue().equals("avro")) {
      new AvroWriter(nodes, out).write(root, value, "data", 0);
    } else {
      new ProtobufWriter(nodes, out).body(root, value, "data", 0);
    }
    return out.toByteArray();
  }

  /** The value in bytes. Throws WireException. */
  static JsonNode decode(JsonNode schema, int root, byte[] bytes) {
    Reader from = new Reader(bytes, "data");
    JsonNode nodes = schema.get("wire");
    if (!schema.get("format").textValue().equals("avro")) {
      return new ProtobufReader(nodes).body(root, from, "data", 0);
    }
    JsonNode value = new AvroReader(nodes, from).read(root, "data", 0);
    if (from.left() > 0) {
      throw new WireException("data", "avro", from.left() + " bytes follow the datum");
    }
    return value;
  }

  private static void nested(String path, int depth) {
    if (depth > DEEPEST) {
      throw new WireException(path, "depth", "nested deeper than " + DEEPEST + " levels");
    }
  }

  private static WireException wrong(JsonNode value, String kind, String path) {
    String text = value.toString();
    return new WireException(
        path, "type", "must be of type " + kind + ", not " + text.substring(0, Math.min(100, text.length())));
  }

  private static void require(boolean fits, JsonNode value, String kind, String path) {
    if (!fits) {
      throw wrong(value, kind, path);
    }
  }

  private static String kind(JsonNode node) {
    return node.get("kind").textValue();
  }

  private static String logical(JsonNode node) {
    return node.path("logical").asText("");
  }

  /** A whole number of so many bits. */
  private static BigInteger whole(JsonNode value, String kind, int bits, boolean signed, String path) {
    BigDecimal number = value.isNumber() ? value.decimalValue().stripTrailingZeros() : null;
    require(number != null && number.scale() <= 0, value, kind, path);
    BigInteger found = number.toBigInteger();
    boolean fits = signed ? found.bitLength() < bits : found.signum() >= 0 && found.bitLength() <= bits;
    if (!fits) {
      throw new WireException(path, "range", found + " is beyond " + kind);
    }
    return found;
  }

  private static byte[] fromBase64(JsonNode value, String kind, String path) {
    require(value.isTextual(), value, kind + " (base64)", path);
    try {
      return Base64.getDecoder().decode(value.textValue());
    } catch (IllegalArgumentException error) {
      throw wrong(value, kind + " (base64)", path);
    }
  }

  private static JsonNode toBase64(byte[] bytes) {
    return NODES.textNode(Base64.getEncoder().encodeToString(bytes));
  }

  private static JsonNode finite(double value, String path) {
    if (!Double.isFinite(value)) {
      throw new WireException(path, "range", value + " has no form in JSON");
    }
    return NODES.numberNode(value);
  }

  private static final class Writer extends ByteArrayOutputStream {
    void raw(byte[] bytes) {
      write(bytes, 0, bytes.length);
    }

    void varint(long value) {
      long left = value;
      while ((left & ~127L) != 0) {
        write((int) (left & 127) | 128);
        left >>>= 7;
      }
      write((int) left);
    }

    void zigzag(long value) {
      varint((value << 1) ^ (value >> 63));
    }

    /** Bytes behind their length; Avro's lengths are signed. */
    void sized(byte[] bytes, boolean signed) {
      varint(signed ? 2L * bytes.length : bytes.length);
      raw(bytes);
    }

    void fixed32(int value) {
      raw(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(value).array());
    }

    void fixed64(long value) {
      raw(ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(value).array());
    }

    /** A float or a double, in which Avro and Protobuf are alike. */
    void real(String kind, JsonNode value, String path) {
      require(value.isNumber(), value, kind, path);
      if (kind.equals("float")) {
        fixed32(Float.floatToIntBits(value.floatValue()));
      } else {
        fixed64(Double.doubleToLongBits(value.doubleValue()));
      }
    }

    void text(JsonNode value, String path, boolean signed) {
      require(value.isTextual(), value, "string", path);
      sized(value.textValue().getBytes(StandardCharsets.UTF_8), signed);
    }
  }

  private static final class Reader {
    private final byte[] bytes;
    private final String path;
    private int place;

    Reader(byte[] bytes, String path) {
      this.bytes = bytes;
      this.path = path;
    }

    int left() {
      return bytes.length - place;
    }

    byte[] raw(long count) {
      if (count < 0 || count > left()) {
        throw new WireException(path, "decode", "the payload ends too early");
      }
      place += (int) count;
      return Arrays.copyOfRange(bytes, place - (int) count, place);
    }

    long varint() {
      long value = 0;
      for (int shift = 0; shift < 70; shift += 7) {
        byte next = raw(1)[0];
        value |= (long) (next & 127) << shift;
        if (next >= 0) {
          return value;
        }
      }
      throw new WireException(path, "decode", "a number has more than ten bytes");
    }

    long zigzag() {
      long value = varint();
      return (value >>> 1) ^ -(value & 1);
    }

    byte[] sized(boolean signed) {
      return raw(signed ? zigzag() : varint());
    }

    String text(boolean signed, String where) {
      try {
        return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(sized(signed))).toString();
      } catch (CharacterCodingException error) {
        throw new WireException(where, "decode", "is not in UTF-8");
      }
    }

    int fixed32() {
      return ByteBuffer.wrap(raw(4)).order(ByteOrder.LITTLE_ENDIAN).getInt();
    }

    long fixed64() {
      return ByteBuffer.wrap(raw(8)).order(ByteOrder.LITTLE_ENDIAN).getLong();
    }
  }

  /** Nanoseconds since 1970 of an RFC 3339 timestamp. */
  private static BigInteger instant(JsonNode value, String path) {
    try {
      require(value.isTextual() && value.textValue().length() <= 40, value, "timestamp", path);
      return nanoseconds(OffsetDateTime.parse(value.textValue()).toInstant());
    } catch (DateTimeException error) {
      throw wrong(value, "timestamp", path);
    }
  }

  private static BigInteger nanoseconds(Instant instant) {
    return BigInteger.valueOf(instant.getEpochSecond()).multiply(GIGA).add(BigInteger.valueOf(instant.getNano()));
  }

  private static BigInteger floored(BigInteger value, BigInteger by) {
    BigInteger[] parts = value.divideAndRemainder(by);
    return parts[1].signum() < 0 ? parts[0].subtract(BigInteger.ONE) : parts[0];
  }

  private static String timestamp(BigInteger nanoseconds, String path) {
    BigInteger seconds = floored(nanoseconds, GIGA);
    long rest = nanoseconds.subtract(seconds.multiply(GIGA)).longValue();
    try {
      String text = Instant.ofEpochSecond(seconds.longValueExact()).toString();
      if (text.length() == 20 && !text.startsWith("0000")) {
        return text.substring(0, 19) + fraction(rest) + "Z";
      }
    } catch (ArithmeticException | DateTimeException error) {
      // Said below.
    }
    throw new WireException(path, "range", "is a time beyond the years 1 to 9999");
  }

  private static String fraction(long nanoseconds) {
    String digits = String.format("%09d", nanoseconds).replaceAll("0+$", "");
    return digits.isEmpty() ? "" : "." + digits;
  }

  private static BigInteger step(JsonNode node) {
    return BigInteger.valueOf(logical(node).endsWith("millis") ? 1_000_000 : 1_000);
  }

  /** What stands for a value of a logical type in Avro: a whole number. */
  private static long unlogical(JsonNode node, JsonNode value, String path) {
    String logical = logical(node);
    try {
      if (logical.startsWith("timestamp")) {
        return floored(instant(value, path), step(node)).longValueExact();
      }
      require(value.isTextual(), value, logical, path);
      if (logical.equals("date")) {
        return LocalDate.parse(value.textValue()).toEpochDay();
      }
      return LocalTime.parse(value.textValue()).toNanoOfDay() / step(node).longValue();
    } catch (DateTimeException | ArithmeticException error) {
      throw wrong(value, logical, path);
    }
  }

  private static JsonNode logicalValue(JsonNode node, long value, String path) {
    String logical = logical(node);
    if (logical.equals("date")) {
      return NODES.textNode(timestamp(BigInteger.valueOf(value).multiply(BigInteger.valueOf(86_400)).multiply(GIGA), path).substring(0, 10));
    }
    BigInteger nanoseconds = BigInteger.valueOf(value).multiply(step(node));
    if (logical.startsWith("timestamp")) {
      return NODES.textNode(timestamp(nanoseconds, path));
    }
    if (nanoseconds.signum() < 0 || nanoseconds.compareTo(BigInteger.valueOf(86_400).multiply(GIGA)) >= 0) {
      throw new WireException(path, "range", "is no time of a day");
    }
    String text = timestamp(nanoseconds, path);
    return NODES.textNode(text.substring(11, text.length() - 1));
  }

  private static byte[] undecimal(JsonNode node, JsonNode value, String path) {
    boolean plain = value.isTextual() && value.textValue().matches("-?\\d{1,1000}(\\.\\d{1,1000})?");
    require(plain, value, "decimal (text)", path);
    int scale = node.get("scale").intValue();
    BigDecimal number = new BigDecimal(value.textValue());
    boolean fits = number.scale() <= scale;
    BigInteger unscaled = fits ? number.setScale(scale).unscaledValue() : BigInteger.ZERO;
    if (!fits || unscaled.abs().toString().length() > node.get("precision").intValue()) {
      String most = node.get("precision") + " digits at most, " + scale + " behind the point";
      throw new WireException(path, "range", "must have " + most);
    }
    byte[] bytes = unscaled.toByteArray();
    int size = kind(node).equals("fixed") ? node.get("size").intValue() : bytes.length;
    if (bytes.length >= size) {
      return bytes;
    }
    byte[] padded = new byte[size];
    Arrays.fill(padded, (byte) (unscaled.signum() < 0 ? 255 : 0));
    System.arraycopy(bytes, 0, padded, size - bytes.length, bytes.length);
    return padded;
  }

  private static JsonNode decimal(JsonNode node, byte[] bytes) {
    BigInteger unscaled = bytes.length == 0 ? BigInteger.ZERO : new BigInteger(bytes);
    return NODES.textNode(new BigDecimal(unscaled, node.get("scale").intValue()).toPlainString());
  }

  private static void surplus(JsonNode value, JsonNode fields, String path) {
    Set<String> known = new HashSet<>();
    fields.forEach(field -> known.add(field.get("name").textValue()));
    value
        .fieldNames()
        .forEachRemaining(
            name -> {
              if (!known.contains(name)) {
                throw new WireException(path + "/" + name, "unknown", "is no field");
              }
            });
  }

  private record AvroWriter(JsonNode nodes, Writer out) {
    void write(int index, JsonNode value, String path, int depth) {
      JsonNode node = nodes.get(index);
      String kind = kind(node);
      nested(path, depth);
      switch (kind) {
        case "null" -> require(value.isNull(), value, kind, path);
        case "boolean" -> {
          require(value.isBoolean(), value, kind, path);
          out.write(value.booleanValue() ? 1 : 0);
        }
        case "int", "long" -> {
          int bits = kind.equals("int") ? 32 : 64;
          boolean plain = logical(node).isEmpty();
          out.zigzag(plain ? whole(value, kind, bits, true, path).longValue() : unlogical(node, value, path));
        }
        case "float", "double" -> out.real(kind, value, path);
        case "string" -> out.text(value, path, true);
        case "bytes", "fixed" -> binary(node, value, path);
        case "enum" -> {
          int place = 0;
          while (place < node.get("symbols").size() && !node.get("symbols").get(place).equals(value)) {
            place += 1;
          }
          if (place == node.get("symbols").size()) {
            throw new WireException(path, "enum", "must be one of " + node.get("symbols"));
          }
          out.zigzag(place);
        }
        case "union" -> union(node, value, path, depth);
        default -> container(node, value, path, depth);
      }
    }

    private void binary(JsonNode node, JsonNode value, String path) {
      boolean decimal = logical(node).equals("decimal");
      byte[] bytes = decimal ? undecimal(node, value, path) : fromBase64(value, kind(node), path);
      if (kind(node).equals("bytes")) {
        out.sized(bytes, true);
        return;
      }
      if (bytes.length != node.get("size").intValue()) {
        throw new WireException(path, "size", "must have " + node.get("size") + " bytes");
      }
      out.raw(bytes);
    }

    /** The first branch that takes the value; what the last one has against it, if none does. */
    private void union(JsonNode node, JsonNode value, String path, int depth) {
      WireException failure = new WireException(path, "union", "is of no branch of the union");
      JsonNode branches = node.get("branches");
      for (int place = 0; place < branches.size(); place++) {
        Writer attempt = new Writer();
        try {
          new AvroWriter(nodes, attempt).write(branches.get(place).intValue(), value, path, depth + 1);
          out.zigzag(place);
          out.raw(attempt.toByteArray());
          return;
        } catch (WireException error) {
          failure = kind(nodes.get(branches.get(place).intValue())).equals("null") ? failure : error;
        }
      }
      throw failure;
    }

    private void container(JsonNode node, JsonNode value, String path, int depth) {
      if (kind(node).equals("record")) {
        record(node, value, path, depth);
        return;
      }
      boolean map = kind(node).equals("map");
      require(map ? value.isObject() : value.isArray(), value, kind(node), path);
      if (value.size() > 0) {
        out.zigzag(value.size());
      }
      for (Map.Entry<String, JsonNode> each : value.properties()) {
        out.sized(each.getKey().getBytes(StandardCharsets.UTF_8), true);
        write(node.get("of").intValue(), each.getValue(), path + "/" + each.getKey(), depth + 1);
      }
      for (int place = 0; !map && place < value.size(); place++) {
        write(node.get("of").intValue(), value.get(place), path + "/" + place, depth + 1);
      }
      out.zigzag(0);
    }

    private void record(JsonNode node, JsonNode value, String path, int depth) {
      require(value.isObject(), value, "record", path);
      surplus(value, node.get("fields"), path);
      for (JsonNode field : node.get("fields")) {
        String name = field.get("name").textValue();
        JsonNode each = value.has(name) ? value.get(name) : field.get("default");
        if (each == null) {
          throw new WireException(path + "/" + name, "required", "is required");
        }
        write(field.get("of").intValue(), each, path + "/" + name, depth + 1);
      }
    }
  }

  private record AvroReader(JsonNode nodes, Reader from) {
    JsonNode read(int index, String path, int depth) {
      JsonNode node = nodes.get(index);
      nested(path, depth);
      return switch (kind(node)) {
        case "null" -> NODES.nullNode();
        case "boolean" -> NODES.booleanNode(from.raw(1)[0] == 1);
        case "int", "long" -> {
          long value = from.zigzag();
          yield logical(node).isEmpty() ? NODES.numberNode(value) : logicalValue(node, value, path);
        }
        case "float" -> finite(Float.intBitsToFloat(from.fixed32()), path);
        case "double" -> finite(Double.longBitsToDouble(from.fixed64()), path);
        case "string" -> NODES.textNode(from.text(true, path));
        case "bytes", "fixed" -> {
          boolean sized = kind(node).equals("bytes");
          byte[] bytes = sized ? from.sized(true) : from.raw(node.get("size").intValue());
          yield logical(node).equals("decimal") ? decimal(node, bytes) : toBase64(bytes);
        }
        case "enum" -> chosen(node.get("symbols"), path);
        case "union" -> read(chosen(node.get("branches"), path).intValue(), path, depth + 1);
        case "record" -> {
          ObjectNode found = NODES.objectNode();
          for (JsonNode field : node.get("fields")) {
            String name = field.get("name").textValue();
            found.set(name, read(field.get("of").intValue(), path + "/" + name, depth + 1));
          }
          yield found;
        }
        default -> container(node, path, depth);
      };
    }

    private JsonNode chosen(JsonNode choices, String path) {
      long place = from.zigzag();
      if (place < 0 || place >= choices.size()) {
        throw new WireException(path, "decode", "there is no choice " + place);
      }
      return choices.get((int) place);
    }

    private JsonNode container(JsonNode node, String path, int depth) {
      boolean map = kind(node).equals("map");
      ObjectNode members = NODES.objectNode();
      ArrayNode items = NODES.arrayNode();
      int had = 0;
      for (long count = block(path, had); count > 0; count = block(path, had)) {
        for (; count > 0; count--, had++) {
          String name = map ? from.text(true, path) : Integer.toString(had);
          JsonNode value = read(node.get("of").intValue(), path + "/" + name, depth + 1);
          if (map) {
            members.set(name, value);
          } else {
            items.add(value);
          }
        }
      }
      return map ? members : items;
    }

    /** How many items follow; a negative count has the size of the block behind it. */
    private long block(String path, int had) {
      long count = from.zigzag();
      if (count < 0) {
        count = -count;
        from.zigzag();
      }
      // Items may be of no bytes at all: what is there does not bound their number.
      if (count < 0 || count > MOST_ITEMS - had) {
        throw new WireException(path, "decode", "has more than a million items");
      }
      return count;
    }
  }

  private static final int VARINT = 0;
  private static final int FIXED64 = 1;
  private static final int SIZED = 2;
  private static final int FIXED32 = 5;
  private static final Set<String> INTEGERS =
      Set.of(
          "int32", "sint32", "sfixed32", "uint32", "fixed32", "int64", "sint64", "sfixed64", "uint64", "fixed64");
  private static final Pattern DURATION = Pattern.compile("(-?)(\\d{1,12})(?:\\.(\\d{1,9}))?s");

  private static int wireType(JsonNode node) {
    return switch (kind(node)) {
      case "fixed64", "sfixed64", "double" -> FIXED64;
      case "fixed32", "sfixed32", "float" -> FIXED32;
      case "int32", "sint32", "uint32", "int64", "sint64", "uint64", "bool", "enum" -> VARINT;
      default -> SIZED;
    };
  }

  private static ObjectNode field(String name, int number, int of) {
    return NODES.objectNode().put("name", name).put("number", number).put("of", of).put("label", "implicit");
  }

  private static boolean isUnsigned(String kind) {
    return kind.startsWith("u") || kind.startsWith("f");
  }

  private record ProtobufWriter(JsonNode nodes, Writer out) {
    /** The fields of a message, or of what stands for one. */
    void body(int index, JsonNode value, String path, int depth) {
      JsonNode node = nodes.get(index);
      nested(path, depth);
      switch (kind(node)) {
        case "timestamp", "duration" -> time(node, value, path);
        case "wrapper" -> field(Wire.field("value", 1, node.get("of").intValue()), value, path, depth);
        default -> message(node, value, path, depth);
      }
    }

    private void message(JsonNode node, JsonNode value, String path, int depth) {
      require(value.isObject(), value, "message", path);
      surplus(value, node.get("fields"), path);
      Map<String, String> choices = new HashMap<>();
      for (JsonNode field : node.get("fields")) {
        String name = field.get("name").textValue();
        JsonNode each = value.path(name);
        if (each.isMissingNode() || each.isNull()) {
          if (field.get("label").textValue().equals("required")) {
            throw new WireException(path + "/" + name, "required", "is required");
          }
          continue;
        }
        String other = field.has("oneof") ? choices.put(field.get("oneof").textValue(), name) : null;
        if (other != null) {
          throw new WireException(path + "/" + name, "oneof", "is given beside " + other);
        }
        field(field, each, path + "/" + name, depth);
      }
    }

    private void time(JsonNode node, JsonNode value, String path) {
      BigInteger seconds;
      BigInteger rest;
      if (kind(node).equals("timestamp")) {
        BigInteger nanoseconds = instant(value, path);
        seconds = floored(nanoseconds, GIGA);
        rest = nanoseconds.subtract(seconds.multiply(GIGA));
      } else {
        Matcher found = DURATION.matcher(value.asText());
        require(value.isTextual() && found.matches(), value, "duration, such as 1.5s", path);
        String digits = found.group(3) == null ? "" : found.group(3);
        BigInteger sign = BigInteger.valueOf(found.group(1).isEmpty() ? 1 : -1);
        seconds = new BigInteger(found.group(2)).multiply(sign);
        rest = new BigInteger(digits + "0".repeat(9 - digits.length())).multiply(sign);
      }
      int number = 1;
      for (BigInteger each : List.of(seconds, rest)) {
        if (each.signum() != 0) {
          tag(number, VARINT);
          out.varint(each.longValue());
        }
        number += 1;
      }
    }

    private void tag(int number, int type) {
      out.varint(((long) number << 3) | type);
    }

    private void field(JsonNode field, JsonNode value, String path, int depth) {
      int of = field.get("of").intValue();
      int number = field.get("number").intValue();
      String label = field.get("label").textValue();
      switch (label) {
        case "map" -> map(field, value, path, depth);
        case "repeated", "packed" -> {
          require(value.isArray(), value, "array", path);
          boolean packed = label.equals("packed");
          Writer items = new Writer();
          for (int place = 0; place < value.size(); place++) {
            if (!packed) {
              tag(number, wireType(nodes.get(of)));
            }
            new ProtobufWriter(nodes, packed ? items : out).single(of, value.get(place), path + "/" + place, depth);
          }
          if (packed && value.size() > 0) {
            tag(number, SIZED);
            out.sized(items.toByteArray(), false);
          }
        }
        default -> {
          Writer before = new Writer();
          new ProtobufWriter(nodes, before).single(of, value, path, depth);
          byte[] bytes = before.toByteArray();
          boolean zero = true;
          for (byte each : bytes) {
            zero &= each == 0;
          }
          // A field without presence is not written with its default.
          if (!label.equals("implicit") || !zero) {
            tag(number, wireType(nodes.get(of)));
            out.raw(bytes);
          }
        }
      }
    }

    private void map(JsonNode field, JsonNode value, String path, int depth) {
      require(value.isObject(), value, "map", path);
      int key = field.get("key").intValue();
      int of = field.get("of").intValue();
      for (Map.Entry<String, JsonNode> each : value.properties()) {
        String below = path + "/" + each.getKey();
        ProtobufWriter entry = new ProtobufWriter(nodes, new Writer());
        entry.tag(1, wireType(nodes.get(key)));
        entry.single(key, keyOf(nodes.get(key), each.getKey()), below, depth);
        entry.tag(2, wireType(nodes.get(of)));
        entry.single(of, each.getValue(), below, depth);
        tag(field.get("number").intValue(), SIZED);
        out.sized(entry.out.toByteArray(), false);
      }
    }

    private static JsonNode keyOf(JsonNode node, String name) {
      if (kind(node).equals("bool") && (name.equals("true") || name.equals("false"))) {
        return NODES.booleanNode(name.equals("true"));
      }
      boolean number = INTEGERS.contains(kind(node)) && name.matches("-?\\d{1,20}");
      return number ? NODES.numberNode(new BigInteger(name)) : NODES.textNode(name);
    }

    private void single(int index, JsonNode value, String path, int depth) {
      JsonNode node = nodes.get(index);
      String kind = kind(node);
      if (INTEGERS.contains(kind)) {
        integer(node, whole(value, kind, kind.endsWith("32") ? 32 : 64, !isUnsigned(kind), path).longValue());
        return;
      }
      switch (kind) {
        case "bool" -> {
          require(value.isBoolean(), value, kind, path);
          out.varint(value.booleanValue() ? 1 : 0);
        }
        case "float", "double" -> out.real(kind, value, path);
        case "string" -> out.text(value, path, false);
        case "bytes" -> out.sized(fromBase64(value, kind, path), false);
        case "enum" -> out.varint(numbered(node, value, path));
        default -> {
          Writer inner = new Writer();
          new ProtobufWriter(nodes, inner).body(index, value, path, depth + 1);
          out.sized(inner.toByteArray(), false);
        }
      }
    }

    private void integer(JsonNode node, long value) {
      switch (wireType(node)) {
        case FIXED64 -> out.fixed64(value);
        case FIXED32 -> out.fixed32((int) value);
        default -> {
          if (kind(node).startsWith("sint")) {
            out.zigzag(value);
          } else {
            out.varint(value);
          }
        }
      }
    }

    private static long numbered(JsonNode node, JsonNode value, String path) {
      if (value.isTextual() && node.get("numbers").has(value.textValue())) {
        return node.get("numbers").get(value.textValue()).longValue();
      }
      if (value.isNumber() && !node.get("closed").booleanValue()) {
        return whole(value, "enum", 32, true, path).longValue();
      }
      throw new WireException(path, "enum", "must be one of " + node.get("numbers"));
    }
  }

  private record ProtobufReader(JsonNode nodes) {
    JsonNode body(int index, Reader from, String path, int depth) {
      JsonNode node = nodes.get(index);
      nested(path, depth);
      if (kind(node).equals("timestamp") || kind(node).equals("duration")) {
        return time(node, from, path);
      }
      boolean wrapper = kind(node).equals("wrapper");
      JsonNode fields =
          wrapper ? NODES.arrayNode().add(field("value", 1, node.get("of").intValue())) : node.get("fields");
      ObjectNode found = NODES.objectNode();
      for (JsonNode field : fields) {
        String name = field.get("name").textValue();
        switch (field.get("label").textValue()) {
          case "map" -> found.set(name, NODES.objectNode());
          case "repeated", "packed" -> found.set(name, NODES.arrayNode());
          case "implicit" -> found.set(name, zero(field.get("of").intValue()));
          default -> {}
        }
      }
      fill(fields, from, found, path, depth);
      for (JsonNode field : fields) {
        String name = field.get("name").textValue();
        if (field.get("label").textValue().equals("required") && !found.has(name)) {
          throw new WireException(path + "/" + name, "required", "is required");
        }
      }
      return wrapper ? found.get("value") : found;
    }

    private void fill(JsonNode fields, Reader from, ObjectNode found, String path, int depth) {
      while (from.left() > 0) {
        long tag = from.varint();
        int type = (int) (tag & 7);
        boolean known = false;
        for (JsonNode field : fields) {
          if (field.get("number").longValue() == tag >>> 3) {
            known = read(field, fields, type, from, found, path, depth);
          }
        }
        if (!known) {
          skip(type, from, path);
        }
      }
    }

    /** Read one occurrence of a field; false for one of another wire type, which is none of it. */
    private boolean read(
        JsonNode field, JsonNode fields, int type, Reader from, ObjectNode found, String path, int depth) {
      String name = field.get("name").textValue();
      String below = path + "/" + name;
      String label = field.get("label").textValue();
      int of = field.get("of").intValue();
      int expected = wireType(nodes.get(of));
      boolean several = label.equals("repeated") || label.equals("packed");
      if (label.equals("map")) {
        if (type != SIZED) {
          return false;
        }
        int key = field.get("key").intValue();
        ObjectNode pair = NODES.objectNode();
        pair.set("key", zero(key));
        pair.set("value", zero(of));
        JsonNode parts = NODES.arrayNode().add(field("key", 1, key)).add(field("value", 2, of));
        fill(parts, new Reader(from.sized(false), below), pair, below, depth);
        ((ObjectNode) found.get(name)).set(pair.get("key").asText(), pair.get("value"));
        return true;
      }
      if (several && type == SIZED && expected != SIZED) {
        Reader inner = new Reader(from.sized(false), below);
        while (inner.left() > 0) {
          ((ArrayNode) found.get(name)).add(single(of, inner, below, depth));
        }
        return true;
      }
      if (type != expected) {
        return false;
      }
      JsonNode value = single(of, from, below, depth);
      if (several) {
        ((ArrayNode) found.get(name)).add(value);
        return true;
      }
      // The last one counts, and of several that exclude each other too.
      for (JsonNode other : fields) {
        if (field.has("oneof") && field.get("oneof").equals(other.get("oneof"))) {
          found.remove(other.get("name").textValue());
        }
      }
      found.set(name, value);
      return true;
    }

    private JsonNode time(JsonNode node, Reader from, String path) {
      long[] parts = new long[2];
      while (from.left() > 0) {
        long tag = from.varint();
        if (tag == 8 || tag == 16) {
          parts[(int) tag / 8 - 1] = from.varint();
        } else {
          skip((int) (tag & 7), from, path);
        }
      }
      BigInteger nanoseconds = BigInteger.valueOf(parts[0]).multiply(GIGA).add(BigInteger.valueOf(parts[1]));
      if (kind(node).equals("timestamp")) {
        return NODES.textNode(timestamp(nanoseconds, path));
      }
      BigInteger[] amount = nanoseconds.abs().divideAndRemainder(GIGA);
      String sign = nanoseconds.signum() < 0 ? "-" : "";
      return NODES.textNode(sign + amount[0] + fraction(amount[1].longValue()) + "s");
    }

    private JsonNode single(int index, Reader from, String path, int depth) {
      JsonNode node = nodes.get(index);
      String kind = kind(node);
      if (INTEGERS.contains(kind)) {
        return integer(node, from);
      }
      return switch (kind) {
        case "bool" -> NODES.booleanNode(from.varint() != 0);
        case "float" -> finite(Float.intBitsToFloat(from.fixed32()), path);
        case "double" -> finite(Double.longBitsToDouble(from.fixed64()), path);
        case "string" -> NODES.textNode(from.text(false, path));
        case "bytes" -> toBase64(from.sized(false));
        case "enum" -> named(node, (int) from.varint());
        default -> body(index, new Reader(from.sized(false), path), path, depth + 1);
      };
    }

    private static JsonNode named(JsonNode node, int number) {
      for (Map.Entry<String, JsonNode> each : node.get("numbers").properties()) {
        if (each.getValue().intValue() == number) {
          return NODES.textNode(each.getKey());
        }
      }
      return NODES.numberNode(number);
    }

    private static JsonNode integer(JsonNode node, Reader from) {
      String kind = kind(node);
      long value =
          switch (wireType(node)) {
            case FIXED64 -> from.fixed64();
            case FIXED32 -> from.fixed32();
            default -> kind.startsWith("sint") ? from.zigzag() : from.varint();
          };
      if (!isUnsigned(kind)) {
        return NODES.numberNode(kind.endsWith("32") ? (int) value : value);
      }
      return kind.endsWith("32")
          ? NODES.numberNode(value & 0xffff_ffffL)
          : NODES.numberNode(new BigInteger(Long.toUnsignedString(value)));
    }

    private JsonNode zero(int index) {
      JsonNode node = nodes.get(index);
      return switch (kind(node)) {
        case "bool" -> NODES.booleanNode(false);
        case "string", "bytes" -> NODES.textNode("");
        case "enum" -> named(node, 0);
        case "double", "float" -> NODES.numberNode(0.0);
        default ->
            wireType(node) == SIZED ? body(index, new Reader(new byte[0], ""), "", 0) : NODES.numberNode(0);
      };
    }

    private static void skip(int type, Reader from, String path) {
      switch (type) {
        case VARINT -> from.varint();
        case FIXED64 -> from.raw(8);
        case SIZED -> from.sized(false);
        case FIXED32 -> from.raw(4);
        default -> throw new WireException(path, "decode", "there is no wire type " + type);
      }
    }
  }
}
