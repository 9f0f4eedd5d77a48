// Package deps holds the import rules of the project, as a test.
//
// The rules are a table: one row for each package below pkg/, with its level on the
// line and whether it is pure, and one row for each import that is forbidden to some
// packages, with the reason. A new package fails the test until it has a row, so that
// its place is decided and not drifted into.
//
// It looks at the imports of a package's own files, not at those of its tests.
package deps
