package protobuf

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"example.com/messages/internal/values"
)

// scalar returns a value that is no message; false for one that the field has no form for.
func scalar(field protoreflect.FieldDescriptor, value any) (protoreflect.Value, bool) {
	text, isText := value.(string)
	number, _ := value.(json.Number)
	switch field.Kind() {
	case protoreflect.BoolKind:
		truth, isBool := value.(bool)
		return protoreflect.ValueOfBool(truth), isBool
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), isText
	case protoreflect.BytesKind:
		content, err := base64.StdEncoding.DecodeString(text)
		return protoreflect.ValueOfBytes(content), isText && err == nil
	case protoreflect.EnumKind:
		return enum(field.Enum(), value)
	case protoreflect.FloatKind:
		real, err := strconv.ParseFloat(string(number), 32)
		return protoreflect.ValueOfFloat32(float32(real)), err == nil
	case protoreflect.DoubleKind:
		real, err := number.Float64()
		return protoreflect.ValueOfFloat64(real), err == nil
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if whole, err := strconv.ParseUint(string(number), 10, 64); err == nil {
			return protoreflect.ValueOfUint64(whole), true
		}
	}
	whole, isWhole := values.Integer(number)
	switch field.Kind() {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(whole)), isWhole && int64(int32(whole)) == whole
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(whole)), isWhole && int64(uint32(whole)) == whole
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(whole)), isWhole && whole >= 0
	}
	return protoreflect.ValueOfInt64(whole), isWhole
}

// enum returns the number of a name. One that has no name is a number, or its digits.
func enum(descriptor protoreflect.EnumDescriptor, value any) (protoreflect.Value, bool) {
	text := fmt.Sprint(value)
	if named := descriptor.Values().ByName(protoreflect.Name(text)); named != nil {
		return protoreflect.ValueOfEnum(named.Number()), true
	}
	number, err := strconv.ParseInt(text, 10, 32)
	return protoreflect.ValueOfEnum(protoreflect.EnumNumber(number)), err == nil && !descriptor.IsClosed()
}

// mapKey returns the key that the name of a member stands for.
func mapKey(field protoreflect.FieldDescriptor, name string) (protoreflect.Value, bool) {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(name), true
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(name == "true"), name == "true" || name == "false"
	}
	return scalar(field, json.Number(name))
}
