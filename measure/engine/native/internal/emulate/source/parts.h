// This file splits a program into parts that are compiled separately.
#include <string>
#include <vector>

// parts_of splits a preprocessed program. The first part has the code that launches kernels, the second
// the whole program. Each of the others has a few kernels of one file, the declarations that they use,
// and their entries. The files of the program begin at `begin`; every part has the text before it.
std::vector<std::string> parts_of(const std::string &text, size_t begin);
