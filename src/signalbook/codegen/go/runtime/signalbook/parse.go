package signalbook

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"example.com/messages/internal/values"
)

// A TypedMessage is what a message of a definition says.
type TypedMessage[P any] struct {
	Payload P
	// Data is the payload as it was sent, with members that no type has: nil, bool, string, json.Number, []any or
	// map[string]any. It is nil where no schema describes the payload.
	Data any
	// Context has the values of placeholders.
	Context map[string]string
	// Attributes are the context attributes of the CloudEvent; a message that is none has none.
	Attributes map[string]any
	Message    *Message
}

// Parse returns what a received message says; generated packages call it. The error is an *UnexpectedMessageError for
// what the definition does not allow.
func Parse[P any](definition *Definition, schema *PayloadSchema, message *Message) (*TypedMessage[P], error) {
	reader := &messageReader{table: definition.read(), message: message, context: map[string]string{}}
	reader.open()
	if reader.table.Event && reader.attributes == nil && len(reader.findings) == 0 {
		reader.report("", "not_cloudevent", "the message is no CloudEvent")
	}
	if len(reader.findings) == 0 {
		reader.hold()
	}
	typed := &TypedMessage[P]{Context: reader.context, Attributes: reader.attributes, Message: message}
	if len(reader.findings) == 0 {
		typed.Data = reader.payload(schema, reflect.ValueOf(&typed.Payload).Elem())
	}
	if len(reader.findings) > 0 {
		return nil, &UnexpectedMessageError{XID: reader.table.XID, Findings: reader.findings}
	}
	return typed, nil
}

// A messageReader notes what is wrong with a message while it is read.
type messageReader struct {
	table    *table
	message  *Message
	findings []Finding
	context  map[string]string

	// What is inside of the envelope.
	attributes  map[string]any
	body        []byte
	contentType string
	mode        Mode
}

func (r *messageReader) report(path, rule, message string) {
	r.findings = append(r.findings, Finding{Path: path, Rule: rule, Message: message})
}

// open reads the envelope.
func (r *messageReader) open() {
	message := r.message
	if !isEvent(message.ContentType) {
		r.body, r.contentType = message.Body, message.ContentType
		if message.Attributes != nil {
			r.findings = invalidAttributes(message.Attributes)
			r.attributes, r.mode, r.contentType = message.Attributes, Binary, ""
			if stated, there := message.Attributes["datacontenttype"]; there {
				r.contentType = textOf(stated)
			}
		}
		return
	}
	r.mode = Structured
	if mediaType(message.ContentType) != jsonEvent {
		r.report("", "content_type", "events of "+message.ContentType+" are not read here")
		return
	}
	event, err := values.Parse(message.Body)
	if err != nil {
		r.report("", "json", "not JSON: "+err.Error())
		return
	}
	members, isObject := event.(map[string]any)
	if !isObject {
		r.report("", "type", "a CloudEvent in JSON is an object")
		return
	}
	r.openEvent(members)
}

func (r *messageReader) openEvent(members map[string]any) {
	r.attributes = map[string]any{}
	for name, value := range members {
		if name != "data" && name != "data_base64" && value != nil {
			r.attributes[name] = attributeOf(value)
		}
	}
	r.findings = invalidAttributes(r.attributes)
	stated, _ := r.attributes["datacontenttype"].(string)
	r.contentType = stated
	data, hasData := members["data"]
	if hasData && stated == "" {
		r.contentType = "application/json"
	}
	if text, isText := members["data_base64"].(string); isText {
		content, err := base64.StdEncoding.DecodeString(text)
		if err != nil || hasData || !isOfType("binary", text) {
			r.report("data_base64", "base64", "is no base64, or beside data")
		}
		r.body = content
		return
	}
	if !hasData {
		return
	}
	if text, isText := data.(string); isText && stated != "" && !isJSON(stated) {
		r.body = []byte(text)
		return
	}
	body, err := values.Marshal(data)
	r.body = body
	r.findings = append(r.findings, values.Failed("data", "json", err)...)
}

// hold compares what a message has with what its definition declares.
func (r *messageReader) hold() {
	protocol := r.message.Protocol
	if r.table.Protocol != "" && protocol != "" && protocol != r.table.Protocol {
		r.report("protocol", "protocol", fmt.Sprintf("must be %s, not %s", r.table.Protocol, protocol))
		return
	}
	if r.table.Mode != "" && protocol != "" && r.mode != r.table.Mode {
		r.report("mode", "mode", fmt.Sprintf("the content mode must be %s", r.table.Mode))
	}
	for place := range r.table.Properties {
		property := &r.table.Properties[place]
		if !property.Delivery && (property.Attribute || protocol == r.table.Protocol) {
			r.holdProperty(property)
		}
	}
	if r.contentType != "" && r.table.ContentType != "" && !r.isAllowed(r.contentType) {
		r.report("datacontenttype", "content_type", "must be "+r.table.ContentType)
	}
}

func (r *messageReader) holdProperty(property *property) {
	var given []any
	if property.Attribute {
		if value, there := r.attributes[property.Name]; there {
			given = append(given, value)
		}
	} else {
		for _, each := range r.message.Options[property.Name] {
			given = append(given, each)
		}
	}
	if len(given) == 0 {
		if property.Required {
			r.report(property.Name, "value", "is required")
		}
		return
	}
	fault := ""
	for place, each := range given {
		found := r.unfit(property, each)
		if found == "" {
			return
		}
		if place == 0 {
			fault = found
		}
	}
	r.report(property.Name, "value", fault)
}

// unfit returns why a value is not what a property declares, or nothing.
func (r *messageReader) unfit(property *property, value any) string {
	switch {
	case property.Template != nil:
		return r.unfitTemplate(property.Template, value)
	case property.Value == nil && isOfType(property.Type, value):
		return ""
	case property.Value == nil:
		return fmt.Sprintf("must be of type %s, not %q", property.Type, textOf(value))
	case property.ContentType && isSameContentType(*property.Value, textOf(value)):
		return ""
	case !property.ContentType && isSame(property.Type, *property.Value, textOf(value)):
		return ""
	}
	return fmt.Sprintf("must be %q, not %q", *property.Value, textOf(value))
}

func (r *messageReader) unfitTemplate(template *template, value any) string {
	text, isText := value.(string)
	found, fits := template.match(text)
	if !isText || !fits {
		return fmt.Sprintf("must fit %s, not %q", template.Text, textOf(value))
	}
	for name, each := range found {
		if before, known := r.context[name]; known && before != each {
			return "has another {" + name + "} than is elsewhere"
		}
	}
	for name, each := range found {
		r.context[name] = each
	}
	return ""
}

func isSame(kind, expected, actual string) bool {
	if expected == actual {
		return true
	}
	switch kind {
	case "integer", "ulong", "number":
		left, isExpected := values.Rational(json.Number(expected))
		right, isNumber := values.Rational(json.Number(actual))
		return isExpected && isNumber && left.Cmp(right) == 0
	case "timestamp":
		left, err := time.Parse(time.RFC3339Nano, strings.ToUpper(expected))
		right, failure := time.Parse(time.RFC3339Nano, strings.ToUpper(actual))
		return err == nil && failure == nil && left.Equal(right)
	case "boolean", "uuid":
		return strings.EqualFold(expected, actual)
	}
	return false
}

func (r *messageReader) isAllowed(actual string) bool {
	expected := r.table.ContentType
	if r.table.Stated {
		return isSameContentType(expected, actual)
	}
	if expected == "application/json" && isJSON(actual) {
		return true
	}
	name := mediaType(actual)
	return name == mediaType(expected) || contains(r.table.Aliases, name)
}

func isSameContentType(expected, actual string) bool {
	if mediaType(expected) != mediaType(actual) {
		return false
	}
	have := parameters(actual)
	for name, value := range parameters(expected) {
		if found, there := have[name]; !there || found != value {
			return false
		}
	}
	return true
}

func parameters(contentType string) map[string]string {
	found := map[string]string{}
	for _, part := range strings.Split(contentType, ";")[1:] {
		name, value, isPair := strings.Cut(part, "=")
		if !isPair {
			continue
		}
		name = strings.ToLower(strings.TrimSpace(name))
		value = strings.Trim(strings.TrimSpace(value), `"`)
		if name == "charset" {
			value = strings.ToLower(value)
		}
		found[name] = value
	}
	return found
}

// payload reads the payload into a value of its type, and returns it as it was sent.
func (r *messageReader) payload(schema *PayloadSchema, into reflect.Value) any {
	if schema == nil {
		if r.body != nil {
			into.SetBytes(r.body)
		}
		return nil
	}
	if r.body == nil {
		r.report("data", "required", "there is no payload, but the definition has a schema")
		return nil
	}
	data, findings := schema.read().Decode(r.table.Root, r.body, "data")
	if r.findings = findings; len(findings) > 0 {
		return nil
	}
	decoder := &decoder{}
	decoder.decode(data, into, "data")
	r.findings = decoder.findings
	return data
}
