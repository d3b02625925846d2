cpdef mixed(value)
