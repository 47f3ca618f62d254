module issue

go 1.21
