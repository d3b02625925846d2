from flinknet.consumer.input_channel cimport InputChannel


cdef class UnknownInputChannel(InputChannel):
    pass
