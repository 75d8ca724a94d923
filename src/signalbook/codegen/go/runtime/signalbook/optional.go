package signalbook

import "encoding/json"

// An Optional is a member that may be absent and may be null, which are not the same. The zero value is absent.
//
// Members that may be absent, or may be null, but not both, are pointers.
type Optional[T any] struct {
	value *T // a pointer, so that a type may have itself as a member
	state state
}

type state uint8

const (
	absent state = iota
	null
	present
)

// Some returns a member with a value.
func Some[T any](value T) Optional[T] { return Optional[T]{value: &value, state: present} }

// Null returns a member that is null.
func Null[T any]() Optional[T] { return Optional[T]{state: null} }

// Get returns the value; false without one.
func (o Optional[T]) Get() (T, bool) {
	if o.state != present {
		var none T
		return none, false
	}
	return *o.value, true
}

// IsAbsent tells whether there is no such member.
func (o Optional[T]) IsAbsent() bool { return o.state == absent }

// IsNull tells whether the member is null.
func (o Optional[T]) IsNull() bool { return o.state == null }

// IsZero tells whether there is no such member, for encoding/json.
func (o Optional[T]) IsZero() bool { return o.state == absent }

// MarshalJSON writes the value, or null.
func (o Optional[T]) MarshalJSON() ([]byte, error) {
	if o.state != present {
		return []byte("null"), nil
	}
	return json.Marshal(*o.value)
}

// UnmarshalJSON reads a value, or null.
func (o *Optional[T]) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*o = Null[T]()
		return nil
	}
	return json.Unmarshal(text, o.fill(present))
}

func (o Optional[T]) content() (any, state) { return o.value, o.state }

// fill returns where the value goes.
func (o *Optional[T]) fill(state state) any {
	o.state, o.value = state, nil
	if state == present {
		o.value = new(T)
	}
	return o.value
}

// optional and fillable are what reading and writing has to know of an Optional, whatever its type.
type (
	optional interface{ content() (any, state) }
	fillable interface{ fill(state) any }
)

// Ptr returns a pointer to a value, for members that are pointers.
func Ptr[T any](value T) *T { return &value }
