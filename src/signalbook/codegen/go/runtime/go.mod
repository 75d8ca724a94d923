module example.com/messages

go 1.26

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/twmb/avro v1.9.1
	golang.org/x/text v0.14.0
	google.golang.org/protobuf v1.36.12
)
