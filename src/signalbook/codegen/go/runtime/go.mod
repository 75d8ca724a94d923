module example.com/messages

go 1.26

require (
	github.com/twmb/avro v1.9.1
	google.golang.org/protobuf v1.36.12
)
