package signalbook

import (
	"fmt"
	"regexp"
	"strings"

	"example.com/messages/internal/values"
)

// A KafkaRecord is a record of Kafka, as a producer sends it or a consumer has it.
type KafkaRecord struct {
	Topic string
	// Key is nil for a record without one.
	Key     []byte
	Headers []KafkaHeader
	Value   []byte
}

// A KafkaHeader is a header of a record.
type KafkaHeader struct {
	Key   string
	Value []byte
}

// Sending is what the sender decides of a message where its definition does not.
type Sending struct {
	// Mode is how an event is sent; binary if nobody says.
	Mode Mode
	// Topic and Key are for Kafka.
	Topic, Key string
	// Method and Path are for HTTP; POST and / if nobody says.
	Method, Path string
}

var topicForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// Kafka returns the message as a record. The error is an *OutboundError.
func (o *Outbound) Kafka(sending Sending) (*KafkaRecord, error) {
	headers, body, err := o.carried("KAFKA", "ce_", sending.Mode, func(text string) string { return text })
	if err != nil {
		return nil, err
	}
	topic := first(o.Options["topic"], sending.Topic)
	if !topicForm.MatchString(topic) || topic == "." || topic == ".." {
		return nil, forbidden(o.Definition, "protocoloptions.topic", "value", fmt.Sprintf("%q is no topic of Kafka", topic))
	}
	record := &KafkaRecord{Topic: topic, Value: body}
	if key := first(o.Options["key"], sending.Key); key != "" {
		record.Key = []byte(key)
	}
	for _, name := range values.Names(headers) {
		record.Headers = append(record.Headers, KafkaHeader{Key: name, Value: []byte(headers[name])})
	}
	return record, nil
}

func first(texts ...string) string {
	for _, each := range texts {
		if each != "" {
			return each
		}
	}
	return ""
}

// An HTTPRequest is a request of HTTP. Query and Header are as url.Values and http.Header have them.
type HTTPRequest struct {
	Method string
	Path   string
	Query  map[string][]string
	Header map[string][]string
	Body   []byte
}

var (
	headerName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	headerValue = regexp.MustCompile(`^([\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?)?$`)
)

// HTTP returns the message as a request. The error is an *OutboundError.
func (o *Outbound) HTTP(sending Sending) (*HTTPRequest, error) {
	headers, body, err := o.carried("HTTP", "ce-", sending.Mode, func(text string) string {
		return percentEncoded(text, func(character byte) bool {
			return character > 0x20 && character < 0x7f && character != '"' && character != '%'
		})
	})
	if err != nil {
		return nil, err
	}
	request := &HTTPRequest{
		Method: first(o.Options["method"], sending.Method, "POST"),
		Path:   first(o.Options["path"], sending.Path, "/"),
		Query:  map[string][]string{},
		Header: map[string][]string{},
		Body:   body,
	}
	for _, name := range values.Names(headers) {
		if !headerName.MatchString(name) || !headerValue.MatchString(headers[name]) {
			path := "protocoloptions.headers." + name
			return nil, forbidden(o.Definition, path, "value", "is no header of HTTP: these are printable ASCII")
		}
		own := canonicalHeader(name)
		request.Header[own] = append(request.Header[own], headers[name])
	}
	for name, value := range o.Options {
		if own, isQuery := strings.CutPrefix(name, "query."); isQuery {
			request.Query[own] = []string{value}
		}
	}
	return request, nil
}

// canonicalHeader returns a name as http.Header has it.
func canonicalHeader(name string) string {
	parts := strings.Split(strings.ToLower(name), "-")
	for place, part := range parts {
		if part != "" {
			parts[place] = strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return strings.Join(parts, "-")
}

// carried returns headers and body for a protocol.
func (o *Outbound) carried(
	protocol, prefix string, wanted Mode, escape func(string) string,
) (map[string]string, []byte, error) {
	if own := o.Definition.Protocol(); own != "" && own != protocol {
		return nil, nil, forbidden(o.Definition, "protocol", "protocol", "the definition is for "+own)
	}
	mode, err := o.mode(wanted)
	if err != nil {
		return nil, nil, err
	}
	headers, body, contentType := map[string]string{}, o.Body, o.ContentType
	switch mode {
	case Structured:
		contentType = jsonEvent
		if body, err = o.CloudEvent(); err != nil {
			return nil, nil, err
		}
	case Binary:
		for name, value := range o.Attributes {
			if name != "datacontenttype" {
				headers[prefix+name] = escape(textOf(value))
			}
		}
	}
	if contentType != "" {
		headers["content-type"] = contentType
	}
	for name, value := range o.Options {
		if own, isHeader := strings.CutPrefix(name, "headers."); isHeader {
			if strings.EqualFold(own, "content-type") {
				own = "content-type"
			}
			headers[own] = value
		}
	}
	return headers, body, nil
}

// A Message is a message as it was received.
type Message struct {
	// Protocol is KAFKA, HTTP and so on; empty for an event in a file.
	Protocol    string
	ContentType string
	// Attributes are those of an event in binary mode; nil where there are none.
	Attributes map[string]any
	// Options are those of the protocol by name, such as topic and headers.kind.
	Options map[string][]string
	// Body is nil for a message without one.
	Body []byte
}

// FromKafka returns a record as a message.
func FromKafka(record *KafkaRecord) *Message {
	options := map[string][]string{"topic": {record.Topic}}
	if record.Key != nil {
		options["key"] = []string{string(record.Key)}
	}
	headers := map[string][]string{}
	for _, each := range record.Headers {
		headers[each.Key] = append(headers[each.Key], string(each.Value))
	}
	return received("KAFKA", headers, "ce_", options, record.Value)
}

// FromHTTP returns a request as a message. Read no more of its body than you mean to: there is no limit here.
func FromHTTP(request *HTTPRequest) *Message {
	options := map[string][]string{"method": {strings.ToUpper(request.Method)}, "path": {request.Path}}
	for name, given := range request.Query {
		options["query."+name] = given
	}
	headers := map[string][]string{}
	for _, name := range values.Names(request.Header) {
		own := strings.ToLower(name)
		headers[own] = append(headers[own], request.Header[name]...)
	}
	return received("HTTP", headers, "ce-", options, request.Body)
}

// FromCloudEvent returns an event in the JSON event format as a message.
func FromCloudEvent(event []byte) *Message {
	return &Message{ContentType: jsonEvent, Body: event}
}

func received(
	protocol string, headers map[string][]string, prefix string, options map[string][]string, body []byte,
) *Message {
	message := &Message{Protocol: protocol, Options: options, Body: body}
	attributes := map[string]any{}
	for name, given := range headers {
		options["headers."+name] = given
		if own, isAttribute := strings.CutPrefix(name, prefix); isAttribute {
			attributes[own] = headerText(protocol, strings.Join(given, ","))
		}
	}
	if given := headers["content-type"]; len(given) > 0 {
		message.ContentType = given[0]
	}
	for _, name := range requiredAttributes {
		if _, there := attributes[name]; !there {
			return message
		}
	}
	if message.ContentType != "" {
		attributes["datacontenttype"] = message.ContentType
	}
	message.Attributes = attributes
	return message
}

var quotedPair = regexp.MustCompile(`\\(.)`)

// headerText returns what the header of an attribute says; those of HTTP may be quoted and percent-encoded.
func headerText(protocol, text string) string {
	if protocol != "HTTP" {
		return text
	}
	if len(text) > 1 && strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`) {
		text = quotedPair.ReplaceAllString(text[1:len(text)-1], "$1")
	}
	return percentDecoded(text)
}
