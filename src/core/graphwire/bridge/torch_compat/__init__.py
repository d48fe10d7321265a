"""Which private or changing parts of torch does graphwire use?"""
