package values

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

const (
	mostDigits  = 1000
	farthestOne = 9999
)

// IsBounded tells whether a number has a form as a double (1e999 has none), and neither more than a thousand
// characters nor an exponent below -9999, which would take libraries very long.
func IsBounded(number json.Number) bool {
	text := string(number)
	if !strings.ContainsAny(text, ".eE") {
		return len(text) <= mostDigits
	}
	_, err := number.Float64()
	_, power, _ := strings.Cut(strings.ToLower(text), "e")
	exponent, _ := strconv.Atoi(power)
	return err == nil && len(text) <= mostDigits && exponent >= -farthestOne
}

// Rational returns the value of a number of JSON to its last digit; false for what is none, and for one out of bounds.
func Rational(number json.Number) (*big.Rat, bool) {
	if !IsBounded(number) || !json.Valid([]byte(number)) {
		return nil, false
	}
	return new(big.Rat).SetString(string(number))
}

// Integer returns a whole number of 64 bits, however it is written: 1.0 and 1e2 are some.
func Integer(number json.Number) (int64, bool) {
	if whole, err := strconv.ParseInt(string(number), 10, 64); err == nil {
		return whole, true
	}
	value, isNumber := Rational(number)
	if !isNumber || !value.IsInt() || !value.Num().IsInt64() {
		return 0, false
	}
	return value.Num().Int64(), true
}
