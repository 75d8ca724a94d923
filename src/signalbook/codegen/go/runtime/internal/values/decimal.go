package values

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// A Decimal is a number as it is written, to its last digit: digits times a power of ten.
//
// A few characters may stand for a number of a billion digits (1e1000000000), so that it is compared
// without them.
type Decimal struct {
	negative bool
	digits   string // without zeros at either end; none for zero
	exponent int64
}

const farExponent = 1 << 40

// ParseDecimal reads a number of JSON; false for what is none.
func ParseDecimal(number json.Number) (Decimal, bool) {
	text := string(number)
	mantissa, power := text, ""
	if place := strings.IndexAny(text, "eE"); place >= 0 {
		mantissa, power = text[:place], text[place+1:]
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if whole == "" || strings.Trim(digits, "0123456789") != "" {
		return Decimal{}, false
	}
	exponent := int64(0)
	if power != "" {
		found, err := strconv.ParseInt(power, 10, 64)
		if err != nil && found == 0 {
			return Decimal{}, false
		}
		exponent = min(max(found, -farExponent), farExponent)
	}
	significant := strings.TrimRight(digits, "0")
	exponent += int64(len(digits)-len(significant)) - int64(len(fraction))
	significant = strings.TrimLeft(significant, "0")
	if significant == "" {
		return Decimal{}, true
	}
	return Decimal{negative: negative, digits: significant, exponent: exponent}, true
}

// IsInteger tells whether it is a whole number; 1.0 and 1e2 are.
func (d Decimal) IsInteger() bool { return d.digits == "" || d.exponent >= 0 }

// Compare returns -1, 0 or 1, as d is less than other, equal to it or more.
func (d Decimal) Compare(other Decimal) int {
	if d.sign() != other.sign() {
		if d.sign() < other.sign() {
			return -1
		}
		return 1
	}
	return d.sign() * d.compareSize(other)
}

func (d Decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	default:
		return 1
	}
}

// compareSize compares without signs.
func (d Decimal) compareSize(other Decimal) int {
	own, others := d.exponent+int64(len(d.digits)), other.exponent+int64(len(other.digits))
	if own != others && d.digits != "" && other.digits != "" {
		if own < others {
			return -1
		}
		return 1
	}
	return strings.Compare(d.digits, other.digits)
}

// IsMultiple tells whether it is a whole number times of, which is not zero.
func (d Decimal) IsMultiple(of Decimal) bool {
	if d.digits == "" || d.exponent < of.exponent {
		return d.digits == "" // what ends in a digit behind those of the other one is no multiple of it
	}
	by := whole(of.digits)
	rest, size := new(big.Int), whole("1"+strings.Repeat("0", chunk))
	for place := 0; place < len(d.digits); place += chunk {
		part := d.digits[place:min(place+chunk, len(d.digits))]
		if len(part) < chunk {
			size = whole("1" + strings.Repeat("0", len(part)))
		}
		rest.Mul(rest, size).Add(rest, whole(part)).Rem(rest, by)
	}
	// Zeros are not written out: there may be a billion of them.
	zeros := new(big.Int).Exp(big.NewInt(10), big.NewInt(d.exponent-of.exponent), by)
	return rest.Mul(rest, zeros).Rem(rest, by).Sign() == 0
}

// chunk is how many digits are looked at in one step, so that the work grows with their number alone.
const chunk = 18

func whole(digits string) *big.Int {
	number, _ := new(big.Int).SetString(digits, 10)
	return number
}

// longestInteger is the number of digits of the largest integers of 64 bits.
const longestInteger = 20

// Integer returns its value if it is a whole number of at most twenty digits.
func (d Decimal) Integer() (*big.Int, bool) {
	if d.digits == "" {
		return new(big.Int), true
	}
	if d.exponent < 0 || d.exponent+int64(len(d.digits)) > longestInteger {
		return nil, false
	}
	number := whole(d.digits + strings.Repeat("0", int(d.exponent)))
	if d.negative {
		number.Neg(number)
	}
	return number, true
}

// String returns the same text for all ways to write a number.
func (d Decimal) String() string {
	if d.digits == "" {
		return "0"
	}
	text := d.digits + "e" + strconv.FormatInt(d.exponent, 10)
	if d.negative {
		return "-" + text
	}
	return text
}
