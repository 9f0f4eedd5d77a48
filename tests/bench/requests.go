package main

import "context"

func (b *bench) requests(ctx context.Context) error { return nil }
