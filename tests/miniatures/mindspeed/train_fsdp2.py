import sys

from mindspeed_llm.fsdp2.arguments import parse_args
from mindspeed_llm.fsdp2.training import train

if __name__ == "__main__":
    train(parse_args(sys.argv[1:]))
