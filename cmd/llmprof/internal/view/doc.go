// Package view turns what commands found out into what they show: pages and tables
// for people, tables for CSV, JSON documents and charts. It knows no flags and no
// terminal, and reads and writes no files.
package view
