// The source files of the library share these declarations.
#include <functional>

// emulated_queue does work at once, or records it if the stream is being captured.
void emulated_queue(void *stream, std::function<void()> work);
