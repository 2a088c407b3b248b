// A program in parts, each of which is compiled by itself.
#include <string>
#include <vector>

// parts_of are the kernels of each file of a program that the preprocessor has read,
// a few at a time, with what they use of it and how they are called. begin is where
// the files of the program begin; what is before, all kernels use.
std::vector<std::string> parts_of(const std::string &text, size_t begin);

// whole is all of it as one part.
std::string whole(const std::string &text, size_t begin);
