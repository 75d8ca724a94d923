package signalbook

import (
	"crypto/rand"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/messages/internal/values"
)

// An Outbound is a message that was built, for whatever sends it.
type Outbound struct {
	Definition *Definition
	// Context has the values of placeholders.
	Context map[string]string
	// Attributes are the context attributes of the CloudEvent: string, bool or int64. A message that is none has none.
	Attributes map[string]any
	// Options are those of the protocol by name, such as topic, key, headers.kind.
	Options map[string]string
	// Body is nil for a message without one.
	Body        []byte
	ContentType string
}

// Inputs are what a message has beside its payload, by names of the definition.
type Inputs map[string]any

// Build makes a message of a definition; generated packages call it. The error is an *OutboundError with everything
// that is wrong.
func Build(definition *Definition, schema *PayloadSchema, payload any, context, inputs Inputs) (*Outbound, error) {
	builder := &builder{table: definition.read(), inputs: inputs, context: map[string]string{}}
	for name, value := range context {
		if text := textOf(value); text != "" {
			builder.context[name] = text
		}
	}
	options, attributes := map[string]string{}, map[string]any{}
	for place := range builder.table.Properties {
		property := &builder.table.Properties[place]
		value := builder.value(property)
		switch {
		case value == nil:
		case property.Attribute:
			attributes[property.Name] = simple(property.Type, value)
		default:
			options[strings.TrimPrefix(property.Path, "protocoloptions.")] = textOf(value)
		}
	}
	body := builder.body(schema, payload)
	outbound := &Outbound{Definition: definition, Context: builder.context, Options: options, Body: body}
	if body != nil {
		outbound.ContentType = builder.contentType(attributes, options)
	}
	if builder.table.Event {
		outbound.Attributes = builder.event(attributes, outbound.ContentType)
		if len(builder.findings) == 0 {
			builder.findings = invalidAttributes(outbound.Attributes)
		}
	}
	if len(builder.findings) > 0 {
		return nil, &OutboundError{XID: builder.table.XID, Findings: builder.findings}
	}
	return outbound, nil
}

// A builder notes what is wrong with a message while it is made.
type builder struct {
	table    *table
	inputs   Inputs
	context  map[string]string
	findings []Finding
}

func (b *builder) report(path, rule, message string) {
	b.findings = append(b.findings, Finding{Path: path, Rule: rule, Message: message})
}

// value returns the value of a property, nil for one that has none.
func (b *builder) value(property *property) any {
	switch {
	case property.Input:
		value := b.inputs[strings.TrimPrefix(property.Path, "envelopemetadata.")]
		if value == nil || !isOfType(property.Type, value) {
			b.report(property.Path, "type", "must be of type "+property.Type)
			return nil
		}
		return value
	case property.Template != nil:
		return b.expanded(property)
	case property.Now:
		return now()
	case property.Value != nil:
		return *property.Value
	case property.Attribute:
		return b.ownValue(property)
	}
	return nil
}

func (b *builder) expanded(property *property) any {
	missing := property.Template.missing(b.context)
	if len(missing) > 0 {
		if property.Required {
			for _, name := range missing {
				b.report("{"+name+"}", "context", "must not be empty")
			}
			b.report(property.Path, "context", property.Template.Text+" needs "+strings.Join(missing, ", "))
		}
		return nil
	}
	text, fits := property.Template.expand(b.context)
	if !fits {
		message := fmt.Sprintf("%s would be %s, which is read as something else", property.Template.Text, text)
		b.report(property.Path, "context", message)
		return nil
	}
	return text
}

// ownValue returns the value of an attribute that a definition leaves open.
func (b *builder) ownValue(property *property) any {
	value := ""
	switch property.Name {
	case "id":
		value = randomID()
	case "type":
		value = b.table.ID
	case "time":
		value = now()
	case "datacontenttype":
		if property.Required {
			value = b.table.ContentType
		}
	case "dataschema":
		value = b.table.DataSchema
	}
	if value == "" {
		return nil
	}
	return value
}

func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// randomID returns a UUID of version 4 (RFC 9562).
func randomID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic(err) // the system has no random numbers
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// body returns the payload in bytes; what is wrong with it is added to the findings.
func (b *builder) body(schema *PayloadSchema, payload any) []byte {
	if schema == nil {
		body, _ := payload.([]byte)
		return body
	}
	encoder := &encoder{}
	value := encoder.encode(reflect.ValueOf(payload), "data", 0)
	if len(encoder.findings) > 0 {
		b.findings = append(b.findings, encoder.findings...)
		return nil
	}
	body, findings := schema.read().Encode(b.table.Root, value, "data")
	b.findings = append(b.findings, findings...)
	return body
}

// contentType returns that of the payload: as an attribute or a header has it, or as the definition does.
func (b *builder) contentType(attributes map[string]any, options map[string]string) string {
	if stated, there := attributes["datacontenttype"]; there {
		return textOf(stated)
	}
	for _, name := range values.Names(options) {
		if strings.EqualFold(name, "headers.content-type") && !isEvent(options[name]) {
			return options[name]
		}
	}
	return b.table.ContentType
}

// event completes the context attributes.
func (b *builder) event(attributes map[string]any, contentType string) map[string]any {
	made := map[string]any{"specversion": specVersion, "id": randomID(), "type": b.table.ID}
	if b.table.DataSchema != "" {
		made["dataschema"] = b.table.DataSchema
	}
	for name, value := range attributes {
		made[name] = value
	}
	delete(made, "datacontenttype")
	if contentType != "" {
		made["datacontenttype"] = contentType
	}
	return made
}

// Mode is how an event is sent.
type Mode string

// The content modes of CloudEvents. Without one it is that of the definition, or binary.
const (
	Binary     Mode = "binary"
	Structured Mode = "structured"
)

func (o *Outbound) mode(wanted Mode) (Mode, error) {
	declared := o.Definition.read().Mode
	switch {
	case o.Attributes == nil:
		return "", nil
	case wanted != "" && wanted != Binary && wanted != Structured:
		return "", forbidden(o.Definition, "envelopeoptions.mode", "mode", fmt.Sprintf("there is no mode %q", wanted))
	case declared != "" && wanted != "" && declared != wanted:
		message := fmt.Sprintf("the definition says %s, not %s", declared, wanted)
		return "", forbidden(o.Definition, "envelopeoptions.mode", "mode", message)
	case declared != "":
		return declared, nil
	case wanted != "":
		return wanted, nil
	}
	return Binary, nil
}

// CloudEvent returns the event in the JSON event format. The error is an *OutboundError for a message that is none.
func (o *Outbound) CloudEvent() ([]byte, error) {
	if o.Attributes == nil {
		return nil, forbidden(o.Definition, "envelope", "envelope", "the message is no CloudEvent")
	}
	event := make(map[string]any, len(o.Attributes)+1)
	for name, value := range o.Attributes {
		event[name] = value
	}
	if o.Body != nil {
		name, value := dataOf(o.Body, o.ContentType)
		event[name] = value
	}
	text, err := values.Marshal(event)
	if err != nil {
		return nil, forbidden(o.Definition, "data", "json", err.Error())
	}
	return text, nil
}

// dataOf returns the member that the payload is. Data that is not what it says is kept as bytes.
func dataOf(body []byte, contentType string) (string, any) {
	if isJSON(contentType) {
		if data, err := values.Parse(body); err == nil {
			return "data", data
		}
	} else if strings.HasPrefix(mediaType(contentType), "text/") && utf8.Valid(body) {
		return "data", string(body)
	}
	return "data_base64", body
}
