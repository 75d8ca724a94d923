package signalbook

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"

	"example.com/messages/internal/values"
)

// deepestPayload is how deep values may be nested, pointers included; those that contain themselves
// have no end.
const deepestPayload = 1024

const mostFindings = 100

// An encoder makes JSON values of Go's, and notes what has no form in JSON.
type encoder struct {
	findings []Finding
}

func (e *encoder) report(path, rule, message string) any {
	e.findings = append(e.findings, Finding{Path: path, Rule: rule, Message: message})
	return nil
}

func (e *encoder) encode(value reflect.Value, path string, depth int) any {
	if !value.IsValid() || len(e.findings) > mostFindings {
		return nil
	}
	if depth > deepestPayload {
		return e.report(path, "depth", "the value is nested too deep")
	}
	if value.CanInterface() {
		switch value := value.Interface().(type) {
		case optional:
			inner, state := value.content()
			if state != present {
				return nil
			}
			return e.encode(reflect.ValueOf(inner).Elem(), path, depth)
		case json.Number:
			return e.number(value, path)
		case []byte:
			return base64.StdEncoding.EncodeToString(value)
		case json.Marshaler:
			return e.marshalled(value, path)
		}
	}
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		return e.encode(value.Elem(), path, depth+1)
	case reflect.Bool:
		return value.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return json.Number(strconv.FormatInt(value.Int(), 10))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return json.Number(strconv.FormatUint(value.Uint(), 10))
	case reflect.Float32, reflect.Float64:
		text, err := json.Marshal(value.Interface())
		if err != nil {
			return e.report(path, "json", fmt.Sprintf("%v has no form in JSON", value.Float()))
		}
		return json.Number(text)
	case reflect.String:
		if !utf8.ValidString(value.String()) {
			return e.report(path, "json", "is not in UTF-8")
		}
		return value.String()
	case reflect.Slice, reflect.Array:
		items := make([]any, value.Len())
		for place := range items {
			items[place] = e.encode(value.Index(place), path+"/"+strconv.Itoa(place), depth+1)
		}
		return items
	case reflect.Map:
		return e.mapping(value, path, depth)
	case reflect.Struct:
		return e.structure(value, path, depth)
	}
	return e.report(path, "json", value.Type().String()+" has no form in JSON")
}

func (e *encoder) number(number json.Number, path string) any {
	if _, isNumber := values.Rational(number); !isNumber {
		return e.report(path, "json", strconv.Quote(string(number))+" is no number, or beyond what numbers hold")
	}
	return number
}

// marshalled is for types of others, such as time.Time.
func (e *encoder) marshalled(value json.Marshaler, path string) any {
	if own := reflect.ValueOf(value); own.Kind() == reflect.Pointer && own.IsNil() {
		return nil
	}
	text, err := value.MarshalJSON()
	if err != nil {
		return e.report(path, "json", err.Error())
	}
	found, err := values.Parse(text)
	if err != nil {
		return e.report(path, "json", err.Error())
	}
	return found
}

func (e *encoder) mapping(value reflect.Value, path string, depth int) any {
	if value.Type().Key().Kind() != reflect.String {
		return e.report(path, "json", value.Type().String()+" has no form in JSON: its keys are no texts")
	}
	members := make(map[string]any, value.Len())
	for each := value.MapRange(); each.Next(); {
		name := each.Key().String()
		below := path + "/" + values.Escaped(name)
		if !utf8.ValidString(name) {
			e.report(below, "json", "the name is not in UTF-8")
		}
		members[name] = e.encode(each.Value(), below, depth+1)
	}
	return members
}

func (e *encoder) structure(value reflect.Value, path string, depth int) any {
	kind := structOf(value.Type())
	members := make(map[string]any, len(kind.fields))
	if kind.extra >= 0 {
		members, _ = e.mapping(value.Field(kind.extra), path, depth).(map[string]any)
	}
	for _, each := range kind.fields {
		field := value.Field(each.place)
		if _, twice := members[each.name]; twice {
			e.report(path+"/"+values.Escaped(each.name), "extra", "is a member of its own, and no extra one")
		}
		if !each.canOmit || !field.IsZero() {
			members[each.name] = e.encode(field, path+"/"+values.Escaped(each.name), depth+1)
		}
	}
	return members
}
