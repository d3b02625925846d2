# Prefetching of memory that will be needed soon. The address need not be valid.


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define have_brought(address) __builtin_prefetch(address)
    #define have_brought_to_write(address) __builtin_prefetch((address), 1)
    #else
    #define have_brought(address) ((void)(address))
    #define have_brought_to_write(address) ((void)(address))
    #endif
    """
    void have_brought(const void *address) noexcept
    void have_brought_to_write(const void *address) noexcept
