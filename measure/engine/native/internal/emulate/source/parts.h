// This file splits a program into parts that are compiled separately.
#include <string>
#include <vector>

// parts_of splits a preprocessed program. Each part has a few kernels of one file, the declarations that
// they use, and their entries. The files of the program begin at `begin`; every part has the text
// before it.
std::vector<std::string> parts_of(const std::string &text, size_t begin);

// whole returns the whole program as one part.
std::string whole(const std::string &text, size_t begin);
