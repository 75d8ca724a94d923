// Package signalbook builds messages of typed payloads, and reads them back: CloudEvents in Kafka, in HTTP and in JSON.
//
// It is generated with the packages that use it.
package signalbook

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"example.com/messages/internal/values"
)

// A Finding is one thing that is wrong with a message, and where: a path such as data/items/0/count.
type Finding = values.Finding

// An OutboundError is a message that its definition does not allow, with all that is wrong.
type OutboundError struct {
	XID      string
	Findings []Finding
}

func (e *OutboundError) Error() string { return described(e.XID, e.Findings) }

// An UnexpectedMessageError is a received message that is not of the definition it was read by.
type UnexpectedMessageError struct {
	XID      string
	Findings []Finding
}

func (e *UnexpectedMessageError) Error() string { return described(e.XID, e.Findings) }

func described(xid string, findings []Finding) string {
	said := make([]string, len(findings))
	for place, each := range findings {
		said[place] = each.String()
	}
	return xid + ": " + strings.Join(said, "; ")
}

// forbidden returns the error of one finding.
func forbidden(definition *Definition, path, rule, message string) *OutboundError {
	finding := Finding{Path: path, Rule: rule, Message: message}
	return &OutboundError{XID: definition.XID(), Findings: []Finding{finding}}
}

// A Definition is a message definition as generated packages have it. It is read when it is first used.
type Definition struct {
	text  string
	once  sync.Once
	table table
}

// table is what is to be known of a message to build and to read it.
type table struct {
	XID         string     `json:"xid"`
	ID          string     `json:"id"`
	Event       bool       `json:"event"`
	Protocol    string     `json:"protocol"`
	Mode        Mode       `json:"mode"`
	ContentType string     `json:"contentType"`
	Stated      bool       `json:"stated"`
	Aliases     []string   `json:"aliases"`
	DataSchema  string     `json:"dataschema"`
	Root        string     `json:"root"`
	Properties  []property `json:"properties"`
}

// A property is what a message declares: an attribute of its event, or an option of its protocol.
type property struct {
	Name        string    `json:"name"`
	Path        string    `json:"path"`
	Type        string    `json:"type"`
	Attribute   bool      `json:"attribute"`
	Required    bool      `json:"required"`
	Delivery    bool      `json:"delivery"`
	ContentType bool      `json:"contentType"`
	Input       bool      `json:"input"`
	Now         bool      `json:"now"`
	Value       *string   `json:"value"`
	Template    *template `json:"template"`
}

// NewDefinition returns the definition of a text in JSON; generated packages call it.
func NewDefinition(text string) *Definition { return &Definition{text: text} }

// XID returns where the definition is in its registry.
func (d *Definition) XID() string { return d.read().XID }

// Protocol returns KAFKA, HTTP and so on; nothing if the definition is for every protocol.
func (d *Definition) Protocol() string { return d.read().Protocol }

func (d *Definition) read() *table {
	d.once.Do(func() { must(json.Unmarshal([]byte(d.text), &d.table)) })
	return &d.table
}

// A PayloadSchema says how payloads are written, and what they are held to. It is read when it is first used.
type PayloadSchema struct {
	parse func(string) (values.Codec, error)
	text  string
	once  sync.Once
	codec values.Codec
}

// NewPayloadSchema returns the schema of a text, which parse reads; generated packages call it.
func NewPayloadSchema(parse func(string) (values.Codec, error), text string) *PayloadSchema {
	return &PayloadSchema{parse: parse, text: text}
}

func (s *PayloadSchema) read() values.Codec {
	s.once.Do(func() {
		var err error
		s.codec, err = s.parse(s.text)
		must(err)
	})
	return s.codec
}

// must panics if a generated text cannot be read: it was changed by hand.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("signalbook: a generated text cannot be read: %v", err))
	}
}
