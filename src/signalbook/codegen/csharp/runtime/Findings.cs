using System;
using System.Collections.Generic;
using System.Linq;

namespace Messages
{
    /// <summary>What is wrong with a message, and where: a path such as <c>data/items/0/count</c>.</summary>
    public sealed class Finding
    {
        /// <summary>A finding at a path, by the rule that is broken, in words.</summary>
        public Finding(string path, string rule, string message)
        {
            Path = path;
            Rule = rule;
            Message = message;
        }

        /// <summary>Where it is: an attribute, an option of the protocol, or a place below <c>data</c>.</summary>
        public string Path { get; }

        /// <summary>The rule that is broken, such as <c>required</c> or <c>maxLength</c>.</summary>
        public string Rule { get; }

        /// <summary>What is wrong, in words.</summary>
        public string Message { get; }

        /// <inheritdoc/>
        public override string ToString() => $"{Path}: {Message} [{Rule}]";
    }

    /// <summary>What is wrong with a message.</summary>
    public abstract class MessageException : Exception
    {
        internal MessageException(string xid, IEnumerable<Finding> findings)
            : this(xid, findings.ToArray())
        {
        }

        private MessageException(string xid, Finding[] findings)
            : base($"{xid}: {string.Join("; ", findings.Select(each => each.ToString()))}")
        {
            Xid = xid;
            Findings = findings;
        }

        /// <summary>The definition of the message.</summary>
        public string Xid { get; }

        /// <summary>All that is wrong, each with its path.</summary>
        public IReadOnlyList<Finding> Findings { get; }
    }

    /// <summary>A message that its definition does not allow.</summary>
    public sealed class OutboundException : MessageException
    {
        internal OutboundException(string xid, IEnumerable<Finding> findings)
            : base(xid, findings)
        {
        }

        internal OutboundException(string xid, string path, string rule, string message)
            : base(xid, new[] { new Finding(path, rule, message) })
        {
        }
    }

    /// <summary>A received message that is not of the definition it was read by.</summary>
    public sealed class UnexpectedMessageException : MessageException
    {
        internal UnexpectedMessageException(string xid, IEnumerable<Finding> findings)
            : base(xid, findings)
        {
        }
    }

    /// <summary>One finding that ends what was under way; callers add it to theirs.</summary>
    internal sealed class FindingException : Exception
    {
        internal FindingException(ValuePath path, string rule, string message)
            : this(new Finding(path.ToString(), rule, message))
        {
        }

        private FindingException(Finding finding)
            : base(finding.ToString())
        {
            Finding = finding;
        }

        internal Finding Finding { get; }

        internal static FindingException WrongType(JsonValue value, string kind, ValuePath path) =>
            new FindingException(path, "type", $"must be of type {kind}, not {value.Shortened()}");
    }

    /// <summary>A place in a value: that of what holds it, and a name or a number. Text is made of it for findings alone.</summary>
    internal sealed class ValuePath
    {
        internal static readonly ValuePath Data = new ValuePath(null, "data", 0);

        private readonly ValuePath _holder;
        private readonly string _name;
        private readonly int _place;

        private ValuePath(ValuePath holder, string name, int place)
        {
            _holder = holder;
            _name = name;
            _place = place;
        }

        internal ValuePath Below(string name) => new ValuePath(this, name, 0);

        internal ValuePath Below(int place) => new ValuePath(this, null, place);

        /// <inheritdoc/>
        public override string ToString()
        {
            var parts = new List<string>();
            for (var each = this; each != null; each = each._holder)
            {
                parts.Add(each._name?.Replace("~", "~0").Replace("/", "~1") ?? JsonNumber.Written(each._place));
            }

            parts.Reverse();
            return string.Join("/", parts);
        }
    }
}
