package signalbook

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"

	"example.com/messages/internal/values"
)

// A ConversionError is a value that a type has no form for, with all that does not fit.
type ConversionError struct {
	Findings []Finding
}

func (e *ConversionError) Error() string { return described("conversion", e.Findings) }

// Convert makes a value of a type of any other, such as a type of payloads of what a member of several types has.
// Members that the type has no field for are left out. The error is a *ConversionError.
func Convert[T any](value any) (T, error) {
	var made T
	encoder := &encoder{}
	found := encoder.encode(reflect.ValueOf(value), "", 0)
	decoder := &decoder{findings: encoder.findings}
	if len(decoder.findings) == 0 {
		decoder.decode(found, reflect.ValueOf(&made).Elem(), "")
	}
	if len(decoder.findings) > 0 {
		return made, &ConversionError{decoder.findings}
	}
	return made, nil
}

// A decoder fills Go's types with JSON values, and notes what they have no form for.
type decoder struct {
	findings []Finding
}

var (
	bytesType  = reflect.TypeOf([]byte(nil))
	numberType = reflect.TypeOf(json.Number(""))
	textType   = reflect.TypeOf("")
)

func (d *decoder) unfit(value any, into reflect.Value, path string) {
	message := "has no form as " + into.Type().String() + ": " + values.Shown(value)
	d.findings = append(d.findings, Finding{Path: path, Rule: "type", Message: message})
}

func (d *decoder) decode(value any, into reflect.Value, path string) {
	if member, isOptional := into.Addr().Interface().(fillable); isOptional {
		if value == nil {
			member.fill(null)
			return
		}
		into = reflect.ValueOf(member.fill(present)).Elem()
	}
	switch {
	case into.Kind() == reflect.Interface:
		if value != nil {
			into.Set(reflect.ValueOf(value))
		}
	case into.Kind() == reflect.Pointer:
		if value != nil {
			into.Set(reflect.New(into.Type().Elem()))
			d.decode(value, into.Elem(), path)
		}
	case into.Type() == bytesType:
		text, isText := value.(string)
		content, err := base64.StdEncoding.DecodeString(text)
		if !isText || err != nil {
			d.unfit(value, into, path)
			return
		}
		into.SetBytes(content)
	default:
		d.plain(value, into, path)
	}
}

func (d *decoder) plain(value any, into reflect.Value, path string) {
	fits := false
	switch value := value.(type) {
	case bool:
		if fits = into.Kind() == reflect.Bool; fits {
			into.SetBool(value)
		}
	case string:
		if fits = into.Kind() == reflect.String && into.Type() != numberType; fits {
			into.SetString(value)
		}
	case json.Number:
		fits = setNumber(value, into)
	case []any:
		if fits = into.Kind() == reflect.Slice; fits {
			into.Set(reflect.MakeSlice(into.Type(), len(value), len(value)))
			for place, item := range value {
				d.decode(item, into.Index(place), path+"/"+strconv.Itoa(place))
			}
		}
	case map[string]any:
		switch into.Kind() {
		case reflect.Map:
			fits = true
			d.mapping(value, into, path)
		case reflect.Struct:
			fits = true
			d.structure(value, into, path)
		}
	}
	if !fits {
		d.unfit(value, into, path)
	}
}

// setNumber sets an integer or a float; false for a number that it has no room for.
func setNumber(number json.Number, into reflect.Value) bool {
	switch into.Kind() {
	case reflect.Int64:
		whole, fits := values.Integer(number)
		into.SetInt(whole)
		return fits
	case reflect.Float64:
		found, err := number.Float64()
		into.SetFloat(found)
		return err == nil
	case reflect.String:
		// Also a number of an enumeration of Protobuf that has no name.
		if into.Type() != textType {
			into.SetString(string(number))
			return true
		}
	}
	return false
}

func (d *decoder) mapping(members map[string]any, into reflect.Value, path string) {
	into.Set(reflect.MakeMapWithSize(into.Type(), len(members)))
	for name, value := range members {
		made := reflect.New(into.Type().Elem()).Elem()
		d.decode(value, made, path+"/"+values.Escaped(name))
		into.SetMapIndex(reflect.ValueOf(name), made)
	}
}

func (d *decoder) structure(members map[string]any, into reflect.Value, path string) {
	kind := structOf(into.Type())
	extra := map[string]any{}
	for name, value := range members {
		if place, declared := kind.places[name]; declared {
			d.decode(value, into.Field(kind.fields[place].place), path+"/"+values.Escaped(name))
		} else {
			extra[name] = value
		}
	}
	if kind.extra >= 0 && len(extra) > 0 {
		d.mapping(extra, into.Field(kind.extra), path)
	}
}
