package protobuf

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"example.com/messages/internal/values"
)

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
	case isGoogle(descriptor):
		w.google(message, value, path)
		return
	case !isObject:
		w.wrong(path, descriptor.Name(), value)
		return
	case depth > deepest:
		w.report(path, "depth", "nested deeper than %d levels", deepest)
		return
	}
	for _, name := range values.Names(members) {
		below := path + "/" + values.Escaped(name)
		field := descriptor.Fields().ByName(protoreflect.Name(name))
		switch {
		case field == nil:
			w.report(below, "unknown", "is no field")
		case members[name] == nil:
		case field.ContainingOneof() != nil && message.WhichOneof(field.ContainingOneof()) != nil:
			w.report(below, "oneof", "is given beside %s", message.WhichOneof(field.ContainingOneof()).Name())
		default:
			w.field(message, field, members[name], below, depth)
		}
	}
	required := descriptor.RequiredNumbers()
	for place := 0; place < required.Len(); place++ {
		if name := string(descriptor.Fields().ByNumber(required.Get(place)).Name()); members[name] == nil {
			w.report(path+"/"+values.Escaped(name), "required", "is required")
		}
	}
}

// isGoogle tells whether a message has a form of its own in JSON: times and wrappers.
func isGoogle(descriptor protoreflect.MessageDescriptor) bool {
	return descriptor.ParentFile().Package() == "google.protobuf"
}

func (w *writer) google(message protoreflect.Message, value any, path string) {
	text, err := values.Marshal(value)
	if err == nil {
		err = protojson.Unmarshal(text, message.Interface())
	}
	if err != nil {
		w.wrong(path, message.Descriptor().Name(), value)
	}
}

func (w *writer) field(
	message protoreflect.Message, field protoreflect.FieldDescriptor, value any, path string, depth int,
) {
	members, isObject := value.(map[string]any)
	items, isArray := value.([]any)
	switch {
	case field.IsMap() && isObject:
		entries := message.Mutable(field).Map()
		for _, name := range values.Names(members) {
			below := path + "/" + values.Escaped(name)
			if key, fits := mapKey(field.MapKey(), name); fits {
				set := func(made protoreflect.Value) { entries.Set(key.MapKey(), made) }
				w.single(field.MapValue(), entries.NewValue, set, members[name], below, depth)
			} else {
				w.wrong(below, field.MapKey().Kind(), name)
			}
		}
	case field.IsList() && isArray:
		list := message.Mutable(field).List()
		for place, item := range items {
			w.single(field, list.NewElement, list.Append, item, path+"/"+strconv.Itoa(place), depth)
		}
	case field.IsMap() || field.IsList():
		w.wrong(path, field.Cardinality(), value)
	default:
		empty := func() protoreflect.Value { return message.NewField(field) }
		set := func(made protoreflect.Value) { message.Set(field, made) }
		w.single(field, empty, set, value, path, depth)
	}
}

// single sets one value of a field; empty makes a message that has no fields yet.
func (w *writer) single(
	field protoreflect.FieldDescriptor, empty func() protoreflect.Value, set func(protoreflect.Value),
	value any, path string, depth int,
) {
	if field.Message() != nil {
		made := empty()
		w.message(made.Message(), value, path, depth+1)
		set(made)
		return
	}
	made, fits := scalar(field, value)
	if !fits {
		w.wrong(path, field.Kind(), value)
		return
	}
	set(made)
}
