module example.com/go-x509

go 1.22
