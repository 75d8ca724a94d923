package jsonschema

import (
	"errors"
	"fmt"
	"sort"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"example.com/messages/internal/values"
)

const (
	mostFindings = 100
	longestText  = 500
)

var english = message.NewPrinter(language.English)

// violations returns the findings of an error of the library, at most a hundred, in the order of their paths.
func violations(err error, path string) []values.Finding {
	var violation *jsonschema.ValidationError
	if !errors.As(err, &violation) {
		return values.Failed(path, "schema", err)
	}
	var findings []values.Finding
	addViolation(violation, path, &findings)
	sort.SliceStable(findings, func(one, other int) bool { return findings[one].Path < findings[other].Path })
	return findings[:min(len(findings), mostFindings)]
}

// nearest returns what the alternative that a value breaks least has against it.
func nearest(alternatives []*jsonschema.ValidationError, root string) string {
	var least []values.Finding
	for _, alternative := range alternatives {
		var findings []values.Finding
		addViolation(alternative, root, &findings)
		if least == nil || len(findings) < len(least) {
			least = findings
		}
	}
	if least == nil {
		return ""
	}
	return fmt.Sprint("; of the nearest one: ", least)
}

func addViolation(violation *jsonschema.ValidationError, root string, findings *[]values.Finding) {
	path := root
	for _, part := range violation.InstanceLocation {
		path += "/" + values.Escaped(part)
	}
	report := func(path, rule, message string) {
		*findings = append(*findings, values.Finding{Path: path, Rule: rule, Message: values.Short(message, longestText)})
	}
	switch broken := violation.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range broken.Missing {
			report(path+"/"+values.Escaped(name), "required", "is required")
		}
		return
	case *kind.DependentRequired:
		for _, name := range broken.Missing {
			report(path+"/"+values.Escaped(name), "required", "is required, as there is "+broken.Prop)
		}
		return
	case *kind.AdditionalProperties:
		for _, name := range broken.Properties {
			report(path+"/"+values.Escaped(name), "additionalProperties", "is not allowed here")
		}
		return
	case *kind.AnyOf, *kind.OneOf:
		report(path, broken.KeywordPath()[0], broken.LocalizedString(english)+nearest(violation.Causes, root))
		return
	case *kind.Contains, *kind.MinContains, *kind.PropertyNames:
		// Their causes are of single items, and of names.
	default:
		for _, cause := range violation.Causes {
			addViolation(cause, root, findings)
		}
		if len(violation.Causes) > 0 {
			return
		}
	}
	rule := "false"
	if keywords := violation.ErrorKind.KeywordPath(); len(keywords) > 0 {
		rule = keywords[0]
	}
	report(path, rule, violation.ErrorKind.LocalizedString(english))
}
