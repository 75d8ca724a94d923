module example.com/messages

go 1.21
