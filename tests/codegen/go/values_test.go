// What values of Go's own are in a payload, and what is wrong with those that have no form in JSON.
package values

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"example.com/shop/hard"
	"example.com/shop/payloads"
	"example.com/shop/shoporders"
	"example.com/shop/signalbook"
)

func paths(t *testing.T, err error) []string {
	t.Helper()
	var outbound *signalbook.OutboundError
	if !errors.As(err, &outbound) {
		t.Fatalf("not an OutboundError: %v", err)
	}
	found := []string{}
	for _, each := range outbound.Findings {
		found = append(found, each.Path)
	}
	return found
}

func TestWhatHasNoFormIsAFinding(t *testing.T) {
	cycle := map[string]any{}
	cycle["a"] = []any{cycle}
	for name, value := range map[string]any{
		"NaN":      math.NaN(),
		"infinite": math.Inf(-1),
		"bytes":    "\xff",
		"function": func() {},
		"channel":  make(chan int),
		"keys":     map[int]string{1: "x"},
		"number":   json.Number("1e999"),
		"no":       json.Number("one"),
		"cycle":    cycle,
	} {
		if _, err := hard.BuildNothing([]any{value}); len(paths(t, err)) == 0 || paths(t, err)[0][:6] != "data/0" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARecordThatWasNotGivenIsAFinding(t *testing.T) {
	order := payloads.OrderPlaced2{Kind: payloads.OrderPlaced2KindNew, Total: math.NaN()}
	_, err := shoporders.BuildOrderPlaced2(order, "7")
	if found := paths(t, err); !reflect.DeepEqual(found, []string{"data/total"}) {
		t.Error(found)
	}
	_, err = hard.BuildExtra(payloads.Extra{ExtraMembers: map[string]int64{"a": 1}, A: signalbook.Ptr("x")})
	if found := paths(t, err); !reflect.DeepEqual(found, []string{"data/a"}) {
		t.Error(found)
	}
}

func TestOtherTypesAreAsTheyAreMarshalled(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	outbound, err := hard.BuildNothing([]any{at, json.RawMessage(`{"a":[1.50]}`), &at, uint8(1), [2]bool{true, false}})
	if err != nil {
		t.Fatal(err)
	}
	wanted := `["2026-01-31T12:00:00Z",{"a":[1.50]},"2026-01-31T12:00:00Z",1,[true,false]]`
	if string(outbound.Body) != wanted {
		t.Error(string(outbound.Body))
	}
}

func TestConvert(t *testing.T) {
	tree, err := signalbook.Convert[payloads.Tree](map[string]any{"n": 1, "kids": []any{map[string]any{"n": 2.0}}})
	if err != nil || tree.N != 1 || tree.Kids[0].N != 2 {
		t.Error(tree, err)
	}
	_, err = signalbook.Convert[payloads.Tree](map[string]any{"n": 1.5})
	var unfit *signalbook.ConversionError
	if !errors.As(err, &unfit) || unfit.Findings[0].Path != "/n" {
		t.Error(err)
	}
}

func TestOptionalInJSON(t *testing.T) {
	for _, text := range []string{`{"b":null}`, `{"b":"x"}`} {
		var found struct {
			B signalbook.Optional[string] `json:"b"`
		}
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			t.Fatal(err)
		}
		made, err := json.Marshal(found)
		if err != nil || string(made) != text {
			t.Error(string(made), err)
		}
	}
	if value, there := signalbook.Null[int64]().Get(); there || value != 0 || !signalbook.Null[int64]().IsNull() {
		t.Error("null is no value")
	}
}
