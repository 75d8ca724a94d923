package wire

import (
	"encoding/binary"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"example.com/messages/internal/values"
)

// The wire types.
const (
	varintType  = 0
	fixed64Type = 1
	sizedType   = 2
	fixed32Type = 5
)

var integerForm = regexp.MustCompile(`^-?\d{1,20}$`)

func wireType(kind string) uint64 {
	switch kind {
	case "fixed64", "sfixed64", "double":
		return fixed64Type
	case "fixed32", "sfixed32", "float":
		return fixed32Type
	case "int32", "sint32", "uint32", "int64", "sint64", "uint64", "bool", "enum":
		return varintType
	default:
		return sizedType
	}
}

// integerBits returns the size of an integer, 0 for what is none.
func integerBits(kind string) int {
	switch kind {
	case "int32", "sint32", "sfixed32", "uint32", "fixed32":
		return 32
	case "int64", "sint64", "sfixed64", "uint64", "fixed64":
		return 64
	default:
		return 0
	}
}

func isUnsigned(kind string) bool {
	return strings.HasPrefix(kind, "u") || strings.HasPrefix(kind, "f")
}

func appendTag(out []byte, number, wireType uint64) []byte {
	return binary.AppendUvarint(out, number<<3|wireType)
}

// wrapped returns the one field of a wrapper such as Int64Value.
func wrapped(node *node) field {
	return field{Name: "value", Number: 1, Of: node.Of, Label: "implicit"}
}

// appendMessage writes the fields of a message, or of what stands for one.
func (s *Schema) appendMessage(out []byte, index int, value any, path string, depth int) ([]byte, error) {
	node := &s.nodes[index]
	if err := nested(path, depth); err != nil {
		return nil, err
	}
	switch node.Kind {
	case "timestamp", "duration":
		return appendTime(out, node.Kind, value, path)
	case "wrapper":
		field := wrapped(node)
		return s.appendField(out, &field, value, path, depth)
	}
	members, isMessage := value.(map[string]any)
	if !isMessage {
		return nil, wrong(value, "message", path)
	}
	if err := surplus(members, node.Fields, path); err != nil {
		return nil, err
	}
	choices := map[string]string{}
	for place := range node.Fields {
		field := &node.Fields[place]
		below := path + "/" + values.Escaped(field.Name)
		each := members[field.Name]
		if each == nil {
			if field.Label == "required" {
				return nil, failed(below, "required", "is required")
			}
			continue
		}
		if other, there := choices[field.OneOf]; there && field.OneOf != "" {
			return nil, failed(below, "oneof", "is given beside %s", other)
		}
		choices[field.OneOf] = field.Name
		var err error
		if out, err = s.appendField(out, field, each, below, depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func appendTime(out []byte, kind string, value any, path string) ([]byte, error) {
	var seconds, nanoseconds int64
	if kind == "timestamp" {
		found, err := instant(value, path)
		if err != nil {
			return nil, err
		}
		seconds, nanoseconds = found.Unix(), int64(found.Nanosecond())
	} else {
		var err error
		if seconds, nanoseconds, err = duration(value, path); err != nil {
			return nil, err
		}
	}
	for place, part := range []int64{seconds, nanoseconds} {
		if part != 0 {
			out = binary.AppendUvarint(appendTag(out, uint64(place+1), varintType), uint64(part))
		}
	}
	return out, nil
}

func (s *Schema) appendField(out []byte, field *field, value any, path string, depth int) ([]byte, error) {
	switch field.Label {
	case "map":
		return s.appendEntries(out, field, value, path, depth)
	case "repeated", "packed":
		return s.appendRepeated(out, field, value, path, depth)
	}
	content, err := s.appendSingle(nil, field.Of, value, path, depth)
	// A field without presence is not written with its default.
	if err != nil || (field.Label == "implicit" && isZero(content)) {
		return out, err
	}
	return append(appendTag(out, field.Number, wireType(s.nodes[field.Of].Kind)), content...), nil
}

func isZero(content []byte) bool {
	for _, each := range content {
		if each != 0 {
			return false
		}
	}
	return true
}

func (s *Schema) appendRepeated(out []byte, field *field, value any, path string, depth int) ([]byte, error) {
	items, isArray := value.([]any)
	if !isArray {
		return nil, wrong(value, "array", path)
	}
	kind := wireType(s.nodes[field.Of].Kind)
	var packed []byte
	for place, item := range items {
		content, err := s.appendSingle(nil, field.Of, item, path+"/"+strconv.Itoa(place), depth)
		if err != nil {
			return nil, err
		}
		if field.Label == "packed" {
			packed = append(packed, content...)
		} else {
			out = append(appendTag(out, field.Number, kind), content...)
		}
	}
	if len(packed) > 0 {
		out = appendSized(appendTag(out, field.Number, sizedType), packed, false)
	}
	return out, nil
}

func (s *Schema) appendEntries(out []byte, field *field, value any, path string, depth int) ([]byte, error) {
	members, isMap := value.(map[string]any)
	if !isMap {
		return nil, wrong(value, "map", path)
	}
	key, kind := s.nodes[field.Key].Kind, s.nodes[field.Of].Kind
	for _, name := range values.Names(members) {
		below := path + "/" + values.Escaped(name)
		entry, err := s.appendSingle(appendTag(nil, 1, wireType(key)), field.Key, keyOf(key, name), below, depth)
		if err != nil {
			return nil, err
		}
		entry, err = s.appendSingle(appendTag(entry, 2, wireType(kind)), field.Of, members[name], below, depth)
		if err != nil {
			return nil, err
		}
		out = appendSized(appendTag(out, field.Number, sizedType), entry, false)
	}
	return out, nil
}

// keyOf returns what the name of a member is as the key of a map.
func keyOf(kind, name string) any {
	switch {
	case kind == "bool" && (name == "true" || name == "false"):
		return name == "true"
	case integerBits(kind) > 0 && integerForm.MatchString(name):
		return json.Number(name)
	}
	return name
}

func (s *Schema) appendSingle(out []byte, index int, value any, path string, depth int) ([]byte, error) {
	node := &s.nodes[index]
	if bits := integerBits(node.Kind); bits > 0 {
		number, err := whole(value, node.Kind, bits, !isUnsigned(node.Kind), path)
		if err != nil {
			return nil, err
		}
		if isUnsigned(node.Kind) {
			return appendInteger(out, node.Kind, number.Uint64()), nil
		}
		return appendInteger(out, node.Kind, uint64(number.Int64())), nil
	}
	switch node.Kind {
	case "bool":
		return appendBoolean(out, value, "bool", path)
	case "float", "double":
		return appendReal(out, value, node.Kind, path)
	case "string":
		return appendText(out, value, path, false)
	case "bytes":
		content, err := fromBase64(value, "bytes", path)
		return appendSized(out, content, false), err
	case "enum":
		number, err := enumValue(node, value, path)
		return binary.AppendUvarint(out, uint64(number)), err
	}
	inner, err := s.appendMessage(nil, index, value, path, depth+1)
	return appendSized(out, inner, false), err
}

func appendInteger(out []byte, kind string, number uint64) []byte {
	switch wireType(kind) {
	case fixed64Type:
		return binary.LittleEndian.AppendUint64(out, number)
	case fixed32Type:
		return binary.LittleEndian.AppendUint32(out, uint32(number))
	}
	if strings.HasPrefix(kind, "sint") {
		number = zigzag(int64(number))
	}
	return binary.AppendUvarint(out, number)
}

func enumValue(node *node, value any, path string) (int64, error) {
	names := make([]string, len(node.Numbers))
	for place, each := range node.Numbers {
		if each.name == value {
			return int64(each.number), nil
		}
		names[place] = each.name
	}
	// One that has no name is a number, or its digits.
	given := value
	if digits, isText := value.(string); isText && integerForm.MatchString(digits) {
		given = json.Number(digits)
	}
	if _, isNumber := given.(json.Number); isNumber && !node.Closed {
		number, err := whole(given, "enum", 32, true, path)
		if err != nil {
			return 0, err
		}
		return number.Int64(), nil
	}
	return 0, failed(path, "enum", "must be one of %s", strings.Join(names, ", "))
}
