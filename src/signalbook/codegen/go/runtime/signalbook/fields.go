package signalbook

import (
	"reflect"
	"strings"
	"sync"
)

// A structType is a struct of a payload: its fields by the names of members.
type structType struct {
	fields []structField
	places map[string]int
	extra  int // the place of the field that has all other members, or -1
}

type structField struct {
	name    string
	place   int
	canOmit bool
}

var structTypes sync.Map

// structOf returns what is known of a struct. Names are those of the tag json, or of the tag member where encoding/json
// has no form for a name; "members" marks the field for all others.
func structOf(kind reflect.Type) *structType {
	if found, known := structTypes.Load(kind); known {
		return found.(*structType)
	}
	made := &structType{places: map[string]int{}, extra: -1}
	for place := 0; place < kind.NumField(); place++ {
		field := kind.Field(place)
		if !field.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		if own, there := field.Tag.Lookup("member"); there {
			name, options = own, field.Tag.Get("optional") // a member may be called "", too
		}
		if _, there := field.Tag.Lookup("members"); there {
			made.extra = place
			continue
		}
		made.places[name] = len(made.fields)
		made.fields = append(made.fields, structField{name: name, place: place, canOmit: options != ""})
	}
	found, _ := structTypes.LoadOrStore(kind, made)
	return found.(*structType)
}
