// This file splits a program into parts that are compiled separately.
#include <string>
#include <vector>

// parts_of splits a preprocessed program. The first part has the code that runs kernels, the second
// the whole program. Each of the others has a few kernels of one file, the declarations that they use,
// and their entries. Every part has the text of the base before it.
std::vector<std::string> parts_of(const std::string &base, const std::string &runtime, const std::string &program);
