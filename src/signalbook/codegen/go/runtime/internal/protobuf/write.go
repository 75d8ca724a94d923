package protobuf

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"example.com/messages/internal/values"
)

var digits = regexp.MustCompile(`^-?\d{1,10}$`)

// A writer fills messages with values, and notes what they have no form for.
type writer struct {
	findings []values.Finding
}

func (w *writer) report(path, rule, format string, arguments ...any) {
	w.findings = append(w.findings, values.Finding{Path: path, Rule: rule, Message: fmt.Sprintf(format, arguments...)})
}

func (w *writer) wrong(path string, kind any, value any) {
	w.report(path, "type", "must be of type %v, not %s", kind, values.Shown(value))
}

func (w *writer) message(message protoreflect.Message, value any, path string, depth int) {
	descriptor := message.Descriptor()
	members, isObject := value.(map[string]any)
	switch {
	case !isObject:
		w.wrong(path, descriptor.Name(), value)
		return
	case depth > deepest:
		w.report(path, "depth", "nested deeper than %d levels", deepest)
		return
	}
	plain, nested := map[string]any{}, map[string]protoreflect.FieldDescriptor{}
	choices := map[protoreflect.Name]string{}
	for _, name := range values.Names(members) {
		below := path + "/" + values.Escaped(name)
		field := descriptor.Fields().ByName(protoreflect.Name(name))
		if field == nil {
			w.report(below, "unknown", "is no field")
			continue
		}
		if members[name] == nil {
			continue
		}
		if group := field.ContainingOneof(); group != nil {
			if other, there := choices[group.Name()]; there {
				w.report(below, "oneof", "is given beside %s", other)
				continue
			}
			choices[group.Name()] = name
		}
		if hasFields(field) {
			nested[name] = field
		} else {
			plain[name] = enumNumbers(field, members[name])
		}
	}
	w.plain(message, plain, path)
	for _, name := range values.Names(nested) {
		w.nested(message, nested[name], members[name], path+"/"+values.Escaped(name), depth+1)
	}
	required := descriptor.RequiredNumbers()
	for place := 0; place < required.Len(); place++ {
		if name := string(descriptor.Fields().ByNumber(required.Get(place)).Name()); members[name] == nil {
			w.report(path+"/"+values.Escaped(name), "required", "is required")
		}
	}
}

// hasFields tells whether the values of a field are messages that have no form of their own in JSON.
func hasFields(field protoreflect.FieldDescriptor) bool {
	if field.IsMap() {
		field = field.MapValue()
	}
	return field.Message() != nil && field.Message().ParentFile().Package() != "google.protobuf"
}

// plain sets all fields that are no messages with fields.
func (w *writer) plain(message protoreflect.Message, members map[string]any, path string) {
	err := unmarshal(members, message)
	if err == nil {
		return
	}
	before := len(w.findings)
	for _, name := range values.Names(members) {
		if unmarshal(map[string]any{name: members[name]}, message) != nil {
			field := message.Descriptor().Fields().ByName(protoreflect.Name(name))
			w.wrong(path+"/"+values.Escaped(name), field.Kind(), members[name])
		}
	}
	if len(w.findings) == before {
		w.report(path, "protobuf", "%v", err)
	}
}

func unmarshal(members map[string]any, message protoreflect.Message) error {
	text, err := values.Marshal(members)
	if err != nil {
		return err
	}
	return protojson.UnmarshalOptions{AllowPartial: true}.Unmarshal(text, message.Interface())
}

// enumNumbers returns a value with numbers for the digits of an enum that have no name.
func enumNumbers(field protoreflect.FieldDescriptor, value any) any {
	if field.IsMap() {
		field = field.MapValue()
	}
	if field.Enum() == nil {
		return value
	}
	switch value := value.(type) {
	case string:
		if digits.MatchString(value) {
			return json.Number(value)
		}
	case []any:
		numbers := make([]any, len(value))
		for place, item := range value {
			numbers[place] = enumNumbers(field, item)
		}
		return numbers
	case map[string]any:
		numbers := make(map[string]any, len(value))
		for name, each := range value {
			numbers[name] = enumNumbers(field, each)
		}
		return numbers
	}
	return value
}

// nested sets a field of messages.
func (w *writer) nested(
	message protoreflect.Message, field protoreflect.FieldDescriptor, value any, path string, depth int,
) {
	members, isObject := value.(map[string]any)
	items, isArray := value.([]any)
	switch {
	case field.IsMap() && isObject:
		for _, name := range values.Names(members) {
			w.entry(message, field, name, members[name], path+"/"+values.Escaped(name), depth)
		}
	case field.IsList() && isArray:
		list := message.Mutable(field).List()
		for place, item := range items {
			w.message(list.AppendMutable().Message(), item, path+"/"+strconv.Itoa(place), depth)
		}
	case field.IsMap() || field.IsList():
		w.wrong(path, field.Cardinality(), value)
	default:
		w.message(message.Mutable(field).Message(), value, path, depth)
	}
}

// entry sets one entry of a map. The library reads its key, which is text in JSON.
func (w *writer) entry(
	message protoreflect.Message, field protoreflect.FieldDescriptor, name string, value any, path string, depth int,
) {
	made := message.New()
	if unmarshal(map[string]any{string(field.Name()): map[string]any{name: map[string]any{}}}, made) != nil {
		w.wrong(path, field.MapKey().Kind(), name)
		return
	}
	made.Get(field).Map().Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		w.message(message.Mutable(field).Map().Mutable(key).Message(), value, path, depth)
		return true
	})
}
