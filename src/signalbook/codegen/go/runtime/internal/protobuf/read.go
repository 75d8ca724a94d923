package protobuf

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"example.com/messages/internal/values"
)

// freeValues is how many values a payload may have apart from its size: those of fields that were not sent.
const freeValues = 1_000_000

// A reader makes values of messages. A few bytes do not become millions of values: left is how many there may be.
type reader struct {
	left int
}

func (r *reader) message(message protoreflect.Message) (any, error) {
	descriptor := message.Descriptor()
	fields := descriptor.Fields()
	if isGoogle(descriptor) {
		if fields.Len() == 1 { // a wrapper
			return r.single(fields.Get(0), message.Get(fields.Get(0)))
		}
		text, err := protojson.Marshal(message.Interface())
		if err != nil {
			return nil, err
		}
		return values.Parse(text)
	}
	if r.left -= fields.Len(); r.left < 0 {
		return nil, errors.New("has more values than a payload of its size may have")
	}
	members := make(map[string]any, fields.Len())
	for place := 0; place < fields.Len(); place++ {
		field := fields.Get(place)
		if field.HasPresence() && !message.Has(field) {
			continue
		}
		value, err := r.field(field, message.Get(field))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.Name(), err)
		}
		members[string(field.Name())] = value
	}
	return members, nil
}

func (r *reader) field(field protoreflect.FieldDescriptor, value protoreflect.Value) (any, error) {
	var err error
	switch {
	case field.IsList():
		items := make([]any, value.List().Len())
		for place := 0; place < len(items) && err == nil; place++ {
			items[place], err = r.single(field, value.List().Get(place))
		}
		return items, err
	case field.IsMap():
		members := make(map[string]any, value.Map().Len())
		value.Map().Range(func(key protoreflect.MapKey, entry protoreflect.Value) bool {
			members[key.String()], err = r.single(field.MapValue(), entry)
			return err == nil
		})
		return members, err
	}
	return r.single(field, value)
}

func (r *reader) single(field protoreflect.FieldDescriptor, value protoreflect.Value) (any, error) {
	switch single := value.Interface().(type) {
	case protoreflect.Message:
		return r.message(single)
	case protoreflect.EnumNumber:
		if named := field.Enum().Values().ByNumber(single); named != nil {
			return string(named.Name()), nil
		}
		return json.Number(strconv.Itoa(int(single))), nil
	case []byte:
		return base64.StdEncoding.EncodeToString(single), nil
	case float32:
		return number(float64(single))
	case bool, string:
		return single, nil
	default:
		return number(single)
	}
}

// number returns a number as JSON has it.
func number(value any) (any, error) {
	text, err := json.Marshal(value)
	return json.Number(text), err
}
