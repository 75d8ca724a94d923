package signalbook

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"example.com/messages/internal/values"
)

const (
	specVersion = "1.0"
	jsonEvent   = "application/cloudevents+json"
)

// uriCharacters are those of RFC 3986.
const uriCharacters = `[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]`

// forms are the texts of types; those of other types may be any.
var forms = map[string]*regexp.Regexp{
	"binary":   regexp.MustCompile(`^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`),
	"boolean":  regexp.MustCompile(`^(true|false)$`),
	"duration": regexp.MustCompile(`^P(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?)$`),
	"number":   regexp.MustCompile(`^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$`),
	"symbol":   regexp.MustCompile(`^[A-Za-z0-9_]+$`),
	"timestamp": regexp.MustCompile(`^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)` +
		`(\.\d{1,12})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`),
	"uri":          regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.\-]*:` + uriCharacters + `*$`),
	"urireference": regexp.MustCompile(`^` + uriCharacters + `+$`),
	"uuid":         regexp.MustCompile(`^(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`),
}

var integerForm = regexp.MustCompile(`^-?(0|[1-9]\d{0,19})$`)

func isOfType(kind string, value any) bool {
	text := textOf(value)
	switch kind {
	case "integer":
		_, err := strconv.ParseInt(text, 10, 32)
		return !isBoolean(value) && err == nil && integerForm.MatchString(text)
	case "ulong":
		_, err := strconv.ParseUint(text, 10, 64)
		return !isBoolean(value) && err == nil && integerForm.MatchString(text)
	case "any":
		return true
	case "duration": // which ends in no letter alone
		return forms[kind].MatchString(text) && text != "P" && !strings.HasSuffix(text, "T")
	}
	if form, known := forms[kind]; known {
		return form.MatchString(text)
	}
	_, isText := value.(string)
	return isText
}

func isBoolean(value any) bool {
	_, is := value.(bool)
	return is
}

// textOf returns a value of an attribute or an option as text.
func textOf(value any) string {
	if number, isFloat := value.(float64); isFloat {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// simple returns whole numbers and booleans as such, all else as it is.
func simple(kind string, value any) any {
	text := textOf(value)
	switch kind {
	case "boolean":
		return text == "true"
	case "integer":
		if number, err := strconv.ParseInt(text, 10, 64); err == nil {
			return number
		}
	}
	return value
}

var requiredAttributes = []string{"specversion", "id", "source", "type"}

// coreAttributes are those that CloudEvents names, with their types.
var coreAttributes = map[string]string{
	"specversion": "string", "id": "string", "source": "urireference", "type": "string", "subject": "string",
	"time": "timestamp", "dataschema": "uri", "datacontenttype": "string",
}

var attributeName = regexp.MustCompile(`^[a-z0-9]+$`)

// invalidAttributes returns what is wrong with the context attributes of a CloudEvent.
func invalidAttributes(attributes map[string]any) []Finding {
	var findings []Finding
	for _, name := range requiredAttributes {
		if _, there := attributes[name]; !there {
			findings = append(findings, Finding{Path: name, Rule: "required", Message: "is required"})
		}
	}
	for _, name := range values.Names(attributes) {
		if message := attributeFault(name, attributes[name]); message != "" {
			findings = append(findings, Finding{Path: name, Rule: "cloudevents", Message: message})
		}
	}
	return findings
}

func attributeFault(name string, value any) string {
	if !attributeName.MatchString(name) || name == "data" {
		return "is no name of an attribute"
	}
	kind, isCore := coreAttributes[name]
	text, isText := value.(string)
	switch {
	case !isText && !isCore && (isBoolean(value) || isOfType("integer", value)):
		return ""
	case !isText:
		return "must be text, or a boolean or a small integer beside the core attributes"
	case !utf8.ValidString(text) || strings.IndexFunc(text, isForbidden) >= 0:
		return "has a control character, a noncharacter or half a character"
	case !isCore:
		return ""
	case text == "":
		return "must not be empty"
	case name == "specversion" && text != specVersion:
		return "must be " + specVersion
	case !isOfType(kind, text):
		return "must be of type " + kind
	}
	return ""
}

func isForbidden(character rune) bool {
	return character < 0x20 || 0x7f <= character && character <= 0x9f ||
		0xfdd0 <= character && character <= 0xfdef || character&0xfffe == 0xfffe && character <= 0xffff
}

// attributeOf returns a member of an event in JSON as a value of an attribute.
func attributeOf(value any) any {
	number, isNumber := value.(json.Number)
	if !isNumber {
		return value
	}
	if whole, isWhole := values.Integer(number); isWhole {
		return whole
	}
	return number
}

func mediaType(contentType string) string {
	name, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(name))
}

func isJSON(contentType string) bool {
	name := mediaType(contentType)
	return name == "application/json" || name == "text/json" || strings.HasSuffix(name, "+json")
}

func isEvent(contentType string) bool {
	return strings.HasPrefix(mediaType(contentType), "application/cloudevents")
}
