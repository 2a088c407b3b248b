// The source files of the library share these declarations.
#include <functional>
#include <string>

// emulated_queue does work at once, or records it if the stream is being captured.
void emulated_queue(void *stream, std::function<void()> work);

// emulated_known reports whether the text of a part is still there.
bool emulated_known(const std::string &part);

// emulated_library returns the shared library of a part and of the one that launches its kernels, or
// "" if it does not compile.
std::string emulated_library(const std::string &launcher, const std::string &part);
