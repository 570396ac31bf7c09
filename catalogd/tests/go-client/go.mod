module example.com/go-client

go 1.22
